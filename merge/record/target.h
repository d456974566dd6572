// The target of a recording: a command, a process, or the machine. A command that is a QEMU is
// asked what it can do, and gets the options that the recording needs.
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

// The facts about the target, found before any folder or instance is made.
struct Target {
  std::optional<User> user;
  bool qemu = false;
  QemuFacts facts;
  std::vector<std::string> symbols;  // absolute paths
};

// Finds the facts about the target. Errors: no such program, user, process, or symbol file; options
// that exclude each other.
[[nodiscard]] Result<Target> look_at_target(const RecordOptions& options);

// Returns the command line to run, completed if it is a QEMU. `marker` is the path for -D, `folder`
// the session's.
[[nodiscard]] Result<QemuAdditions> complete_command(const RecordOptions& options,
                                                     const Target& target,
                                                     const std::string& marker,
                                                     const Instance& instance,
                                                     const std::string& folder);

// Copies files that readers need besides the recording: symbols/, trace-events-all.
void copy_companions(const Folder& session, const RecordOptions& options, const Target& target);

}  // namespace trapline::record
