// What is recorded: a command, found, asked and completed, a process, or the whole machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/folder.h"
#include "merge/record/command.h"
#include "merge/record/instance.h"
#include "merge/record/qemu_command.h"
#include "merge/record/recorder.h"
#include "merge/record/running_qemu.h"

namespace trapline::record {

// What is recorded, before anything is made: the command found, asked and completed.
struct Target {
  std::optional<User> user;
  bool qemu = false;
  QemuFacts facts;
  std::vector<std::string> symbols;  // absolute
};

// Errors: no such program, user, process, symbol file; options that do not go together.
[[nodiscard]] Result<Target> look_at_target(const RecordOptions& options);

// The command line to run, completed where it is a QEMU; `marker` is what -D is to name, `folder`
// the session's.
[[nodiscard]] Result<QemuAdditions> complete_command(const RecordOptions& options,
                                                     const Target& target,
                                                     const std::string& marker,
                                                     const Instance& instance,
                                                     const std::string& folder);

// Copies what readers want beside the recording: symbols/, trace-events-all.
void copy_companions(const Folder& session, const RecordOptions& options, const Target& target);

}  // namespace trapline::record
