// trapline explain: why one exit took as long as it did.
#include "merge/explain/explain.h"
#include "merge/cli/common.h"
#include "merge/explain/guest_spans.h"

namespace trapline::cli {
namespace {

struct ExplainArguments {
  PassOptions pass;
  std::string around = "max", guest_span, format = "text";
  Output output;
  std::size_t worst = 10;
};

Result<void> run_spans(ExplainArguments& options) {
  auto parsed = assign(options.pass.guest_intervals, parse_guest_span(options.guest_span));
  if (!parsed) return parsed;
  auto explained = run_guest_spans(options.pass, options.worst, progress_line());
  if (!explained) return tl::unexpected(std::move(explained).error());
  return print_as(options.format, make_report(*explained), options.output);
}

Result<void> run_explain(ExplainArguments& options) {
  if (auto begun = begin_reading(options.pass.input, options.output); !begun) return begun;
  const std::vector<std::string> choosing = options.pass.which.vcpu_and_exit_words();
  if (!options.guest_span.empty() && !choosing.empty()) {
    return fail(ErrorKind::kUsage, "{} chooses an exit and cannot be given with --guest-span",
                choosing.front());
  }
  if (!options.guest_span.empty()) return run_spans(options);
  if (options.format == "csv") {
    return fail(ErrorKind::kUsage,
                "--format csv needs --guest-span; an exit is explained as text or json");
  }
  std::optional<TimeSpec> around;
  if (options.around != "max") {
    auto parsed = assign(around, parse_time_spec("--around", options.around));
    if (!parsed) return parsed;
  }
  auto explained = run_explain(options.pass, around, progress_line());
  if (!explained) return tl::unexpected(std::move(explained).error());
  return print_as(options.format, make_report(*explained, options.pass.input.verbose),
                  options.output);
}

}  // namespace

void add_explain(CLI::App& app, int& status) {
  auto options = std::make_shared<ExplainArguments>();
  CLI::App* command =
      app.add_subcommand("explain", "Explain why one exit took so long, and who kept it waiting");
  add_input_options(*command, options->pass.input);
  add_selection(*command, options->pass.which);
  const OptionGroup output(*command, kOutput);
  OptionGroup(*command, kWhich)
      .add("--around", options->around, "max|TIME",
           "max: the longest exit, halts excepted; or the exit at this time: seconds of "
           "the recording's clock, or +TIME after its first event")
      ->capture_default_str();
  OptionGroup(*command, kTables)
      .add("--guest-span", options->guest_span, "SPEC",
           "Explain, instead of an exit, intervals of the guest: START:FIELD..END:FIELD of "
           "its kernel's events, function:NAME, or marker:TEXT");
  OptionGroup(*command, kRest)
      .add("--worst", options->worst, "", "With --guest-span: the N longest intervals, one by one")
      ->transform(in_range(0, 10000))
      ->needs("--guest-span")
      ->capture_default_str();
  output.choice("--format", options->format, {"text", "json", "csv"},
                "text or json; csv with --guest-span");
  add_output(output, options->output);
  on_run(*command, status, options, run_explain);
}

}  // namespace trapline::cli
