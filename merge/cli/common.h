// What several subcommands share: how recordings are named, where results go, progress.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "merge/cli/help.h"
#include "merge/render/page/page_options.h"
#include "merge/render/text_table.h"
#include "merge/report/run.h"
#include "merge/session/input.h"

namespace trapline::cli {

// The recordings and what helps to read them; `path` is filled by the user's words. `rare`: --help
// leaves those for clocks to --help-all.
void add_input_options(CLI::App& command, InputOptions& options, bool rare = false);
// The texts say what of the command's output they narrow.
void add_vcpu_options(CLI::App& command, VcpuFilter& filter, const std::string& vcpu_text,
                      const std::string& vm_text);
// --from, and its end.
std::pair<CLI::Option*, CLI::Option*> add_interval(CLI::App& command, std::string& from,
                                                   std::string& to,
                                                   const char* name_of_to = "--to");
// --qemu-events and --no-qemu-events of what records a COMMAND.
void add_qemu_events(CLI::App& command, std::string_view group, std::vector<std::string>& patterns,
                     bool& none);

// Where a command writes: a file, or where that has no name the standard output.
struct Output {
  std::string file;
  bool force = false;
};
// -o and --force. `rare`: --help leaves the latter to --help-all.
void add_output(const OptionGroup& group, Output& output,
                const std::string& text = "Write to this file", bool rare = false);
// stdout's width, and whether it takes colours (a terminal, and NO_COLOR is not set).
[[nodiscard]] TextStyle style_of(const Output& output);

// Share read, on stderr, once a second when that is a terminal; erased at the end.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  [[nodiscard]] Progress callback();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What a page of these recordings says of itself; `from` and `to` as the user gave them.
// The words that name the recording, and how it is read, on the command line.
[[nodiscard]] std::vector<std::string> recording_words(const InputOptions& input,
                                                       const VcpuFilter& filter);
// As they are typed in a shell: "'a b' c".
[[nodiscard]] std::string shell_text(const std::vector<std::string>& words);
[[nodiscard]] PageOptions page_options(const InputOptions& input, const VcpuFilter& filter,
                                       const std::string& from, const std::string& to);

// Before the recordings are read for it; an Error where it would replace one of them, or a file
// without --force.
[[nodiscard]] Result<void> check(const Output& output, std::span<const std::string> recordings);
// An Error when it cannot be written whole.
[[nodiscard]] Result<void> print_to(const Output& output,
                                    const std::function<void(std::ostream&)>& print);

}  // namespace trapline::cli
