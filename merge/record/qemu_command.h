// What a QEMU's command line lacks to be a witness, and adding it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/record/command.h"
#include "merge/record/recorder.h"

namespace trapline::record {

// How this QEMU's events reach ftrace.
enum class QemuTracing {
  kLog,     // its log file can be the marker: -D
  kFtrace,  // it writes into the top-level marker itself
  kNone,    // built without either
};

struct QemuFacts {
  QemuTracing tracing = QemuTracing::kNone;
  bool top_level_marker = false;  // it opens that one, whatever else it has
  std::string version;
  std::string trace_events;  // its trace-events-all; empty when not found
};

// Whether the program is a QEMU system emulator, by its name.
[[nodiscard]] bool is_qemu(const std::string& word);
// Whether this file is a QEMU whose events can go into its log; it is not run.
[[nodiscard]] bool has_log_backend(const std::string& program);
// The trace-events-all beside it; empty when not found.
[[nodiscard]] std::string find_trace_events(const std::string& program);
// Asks it (-d help, --version), as the user who will run it.
[[nodiscard]] QemuFacts ask_qemu(const std::string& program, const std::optional<User>& user);

struct QemuWishes {
  std::vector<std::string> events;         // patterns for -trace
  std::string marker;                      // for -D
  Functions functions = Functions::kNone;  // the plugin, under TCG
  std::string plugin, plugin_out;
  std::string instance;  // for a plugin that writes into trace_marker; empty: the top level's
  std::vector<std::string> symbols;  // for the plugin
};

struct QemuAdditions {
  std::vector<std::string> words;     // the whole command line
  std::vector<std::string> added;     // what was added or changed, as the user would type it
  std::vector<std::string> warnings;  // sentences
  // What the plugin does, whoever gave it, and whether it writes into the session.
  Functions functions = Functions::kNone;
  bool out_in_session = false;
};

// The `-plugin` option that is ours, and what it asks for.
struct NamedPlugin {
  std::size_t word = 0;  // of its value
  Functions output = Functions::kUftrace;
  bool has_output = false, has_out = false, has_instance = false;
};
[[nodiscard]] std::optional<NamedPlugin> named_plugin(const std::vector<std::string>& words);

// A command that names our plugin already gets no second one, since QEMU refuses that: it is told
// of the instance, of --functions and of the session where it does not say itself. An Error:
// --functions without TCG, -daemonize (the recording would end at once).
[[nodiscard]] Result<QemuAdditions> complete_qemu(const std::vector<std::string>& words,
                                                  const QemuFacts& facts, const QemuWishes& wishes);

// The value of an option of this command line ("-kernel"); nothing when it is not there.
[[nodiscard]] std::optional<std::string> option_value(const std::vector<std::string>& words,
                                                      std::string_view option);

// The VM's name that the command line gives (-name, else -uuid); empty where it gives none.
[[nodiscard]] std::string qemu_vm_name(const std::vector<std::string>& words);

}  // namespace trapline::record
