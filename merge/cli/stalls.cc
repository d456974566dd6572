// trapline stalls: the longest times in which a vCPU, or a whole VM, made no progress.
#include "merge/explain/stalls.h"

#include <algorithm>

#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/text.h"
#include "merge/cli/common.h"
#include "merge/source/stream_copy.h"

namespace trapline::cli {
namespace {

struct StallsArguments {
  PassOptions pass;
  std::string least = "10ms", format = "text";
  std::size_t top = 10;
  Output output;
};

Result<void> run_stalls(StallsArguments& options) {
  if (auto begun = begin_reading(options.pass.input, options.output); !begun) return begun;
  auto least = assign(options.pass.stalls_ns, parse_duration("--min", options.least));
  if (!least) return least;
  if (options.pass.stalls_ns == 0)
    return fail(ErrorKind::kUsage, "--min 0: every exit would be a stall; use 10ms");
  auto found = trapline::run_stalls(options.pass, options.top, progress_line());
  if (!found) return tl::unexpected(std::move(found).error());
  if (std::ranges::find(options.pass.input.paths, kStandardInput) == options.pass.input.paths.end())
    found->recording = shell_text(recording_words(options.pass.input));
  return print_as(options.format, make_report(*found), options.output);
}

}  // namespace

void add_stalls(CLI::App& app, int& status) {
  auto options = std::make_shared<StallsArguments>();
  CLI::App* command =
      app.add_subcommand("stalls", "Find when a vCPU, or a whole VM, made no progress, and why");
  add_input_options(*command, options->pass.input);
  add_selection(*command, options->pass.which);
  const OptionGroup tables(*command, kTables), output(*command, kOutput);
  tables.add("--min", options->least, "TIME", "Only stalls that lasted at least this long")
      ->capture_default_str();
  tables.add("--top", options->top, "", "The N longest (0: all)")->capture_default_str();
  output.choice("--format", options->format, {"text", "json", "csv"}, "text, json or csv");
  add_output(output, options->output);
  on_run(*command, status, options, run_stalls);
}

}  // namespace trapline::cli
