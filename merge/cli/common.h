// The parts that several subcommands share: naming recordings, writing results, showing progress.
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

// Adds the recordings, which are the command's words, and the options for reading them.
void add_input_options(CLI::App& command, InputOptions& options);
// Adds --qemu-events and --no-qemu-events, for commands that record a COMMAND.
void add_qemu_events(CLI::App& command, std::string_view group, std::vector<std::string>& patterns,
                     bool& none);

// A command's output: a file or, if `file` is empty, the standard output.
struct Output {
  std::string file;
  bool force = false, verbose = false;
  std::string color = "auto";
};
// Adds -o and --force. `rare`: --help does not show --force, but --help-all does.
void add_output(const OptionGroup& group, Output& output,
                const std::string& text = "Write to this file", bool rare = false);
// Adds --color, which applies to what is printed for people.
void add_color(const OptionGroup& group, std::string& color);
// Returns true if colours are asked for, or if stdout is a terminal that suits them.
[[nodiscard]] bool takes_colours(const std::string& color);
// Returns how to print text to this output: the width, and whether colours and a legend are wanted.
[[nodiscard]] TextStyle style_of(const Output& output);

// Shows on stderr how much of the recording is read, once a second if stderr is a terminal; erases
// it when the last copy of the function is destroyed.
[[nodiscard]] Progress progress_line();

// Makes the command call `run`. If it fails, its Error is printed; if it returns a status, that is
// the command's status.
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

// Returns the words of a command line that name the recording and how to read it.
[[nodiscard]] std::vector<std::string> recording_words(const InputOptions& input);
// Returns the options for a page about these recordings: the tables that it shows, and the `report`
// command for the same recordings and selection.
[[nodiscard]] ReportOptions page_options(const PassOptions& pass);

// If the user named no recording, takes the default folder of `trapline record` and says so.
// Returns an Error (kUsage), which says what to type, if stdin may be the recording, or if that
// folder does not exist.
[[nodiscard]] Result<void> name_recording(std::vector<std::string>& paths);
// Adds the files that an input names.
void add_needs(const InputOptions& input, Needs& needs);
// Does all that comes before a recording is read: names it, checks the output, gives up root.
[[nodiscard]] Result<void> begin_reading(InputOptions& input, const Output& output,
                                         bool browser = false);
// Prints into the output. Returns an Error if the output cannot be written whole.
[[nodiscard]] Result<void> print_to(const Output& output,
                                    const std::function<void(std::ostream&)>& print);
// Prints a report as "json", "csv" or text.
[[nodiscard]] Result<void> print_as(const std::string& format, const Report& report,
                                    const Output& output);

}  // namespace trapline::cli
