// Finds what a QEMU's command line lacks for a recording, and adds it.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/record/command.h"
#include "merge/record/recorder.h"

namespace trapline::record {

// How a QEMU's events can reach ftrace.
enum class QemuTracing {
  kLog,     // QEMU's log file can be the marker: -D
  kFtrace,  // QEMU writes into the top-level marker itself
  kNone,    // QEMU was built without the log and ftrace backends
};

struct QemuFacts {
  QemuTracing tracing = QemuTracing::kNone;
  bool top_level_marker = false;  // QEMU opens the top-level marker, with any other backends
  std::string version;
  std::string trace_events;  // path of its trace-events-all; empty: not found
};

// Returns whether the program is a QEMU system emulator, by its name.
[[nodiscard]] bool is_qemu(const std::string& word);
// Returns whether this file is a QEMU whose events can go into its log, without running it.
[[nodiscard]] bool has_log_backend(const std::string& program);
// Returns the trace-events-all that belongs to the program; empty if not found.
[[nodiscard]] std::string find_trace_events(const std::string& program);
// Runs the program with -d help and --version, as `user`, and returns what its answers show.
[[nodiscard]] QemuFacts ask_qemu(const std::string& program, const std::optional<User>& user);

struct QemuOptions {
  std::vector<std::string> events;         // patterns for -trace
  std::string marker;                      // for -D
  Functions functions = Functions::kNone;  // where our plugin, under TCG, writes calls
  std::string plugin, plugin_out;
  std::string instance;  // for a plugin that writes into trace_marker; empty: the top level
  std::vector<std::string> symbols;  // for the plugin
};

struct QemuAdditions {
  std::vector<std::string> words;     // the whole command line
  std::vector<std::string> added;     // what was added or changed, as the user would type it
  std::vector<std::string> warnings;  // as sentences
};

// Completes the command line. Errors: --functions without TCG, or beside a -plugin of the command's
// own, since QEMU does not load a plugin twice; -daemonize (the recording would end at once).
[[nodiscard]] Result<QemuAdditions> complete_qemu(const std::vector<std::string>& words,
                                                  const QemuFacts& facts,
                                                  const QemuOptions& requested);

// Returns the value of an option of this command line ("-kernel"); nullopt if it is not there.
[[nodiscard]] std::optional<std::string> option_value(const std::vector<std::string>& words,
                                                      std::string_view option);

// Returns "a" for the key "id=" in an option's value "x,id=a,y", in which a comma is written twice;
// empty if the value lacks the key.
[[nodiscard]] std::string part_of(const std::string& value, std::string_view key);

// Returns the VM's name in the command line (-name, else -uuid); empty if there is none.
[[nodiscard]] std::string qemu_vm_name(const std::vector<std::string>& words);

}  // namespace trapline::record
