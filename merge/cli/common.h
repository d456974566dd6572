// What several subcommands share: how recordings are named, where results go, progress.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "merge/cli/commands.h"
#include "merge/cli/help.h"
#include "merge/cli/rights.h"
#include "merge/cli/selection.h"
#include "merge/render/page/page_data.h"
#include "merge/render/print.h"
#include "merge/report/run.h"
#include "merge/session/input.h"

namespace trapline::cli {

// Adds --tsc-khz and --unit.
void add_time_units(const OptionGroup& group, InputOptions& options);

// The recordings and what helps to read them; `path` is filled by the user's words. `rare`: --help
// leaves those for clocks to --help-all.
void add_input_options(CLI::App& command, InputOptions& options, bool rare = false);
// --qemu-events and --no-qemu-events of what records a COMMAND.
void add_qemu_events(CLI::App& command, std::string_view group, std::vector<std::string>& patterns,
                     bool& none);

// Where a command writes: a file, or where that has no name the standard output.
struct Output {
  std::string file;
  bool force = false;
  std::string color = "auto";
};
// -o and --force. `rare`: --help leaves the latter to --help-all.
void add_output(const OptionGroup& group, Output& output,
                const std::string& text = "Write to this file", bool rare = false);
// --color, of what is printed for people.
void add_color(const OptionGroup& group, std::string& color);
// True if colours are asked for, or are good for the terminal.
[[nodiscard]] bool takes_colours(const std::string& color);
// stdout's width, and whether it takes colours.
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

// Has the command run `run`. Its Error is said; a status that it returns is the command's.
template <typename Options, typename Run>
void on_run(CLI::App& command, int& status, const std::shared_ptr<Options>& options,
            const Run& run) {
  command.callback([&status, options, run] {
    const auto done = run(*options);
    if (!done) {
      status = fail_with(done.error());
    } else if constexpr (requires { status = *done; }) {
      status = *done;
    }
  });
}

// The words that name the recording, and how it is read, on the command line.
[[nodiscard]] std::vector<std::string> recording_words(const InputOptions& input);
// What a page of these recordings says of itself.
[[nodiscard]] ReportOptions page_options(const InputOptions& input, const SelectionOptions& which);

// Takes record's default folder where the user named no recording, and says so. An Error (kUsage)
// where stdin may be the recording, or where that folder does not exist: says what to type.
[[nodiscard]] Result<void> name_recording(std::vector<std::string>& paths);
// Before the recordings are read for it; an Error where it would replace one of them, or a file
// without --force.
[[nodiscard]] Result<void> check(const Output& output, std::span<const std::string> recordings);
// Adds the files that an input names.
void add_needs(const InputOptions& input, Needs& needs);
// All that comes before a recording is read: name_recording(), check() and give_up_root().
[[nodiscard]] Result<void> begin_reading(InputOptions& input, const Output& output,
                                         bool browser = false);
// Returns an Error when it cannot be written whole.
[[nodiscard]] Result<void> print_to(const Output& output,
                                    const std::function<void(std::ostream&)>& print);
// As "json", "csv" or text, after `heading`.
[[nodiscard]] Result<void> print_as(const std::string& format, const Report& report,
                                    const Output& output, const std::string& heading = {});

}  // namespace trapline::cli
