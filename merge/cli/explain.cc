// trapline explain: why one exit took as long as it did.
#include "merge/cli/commands.h"
#include "merge/cli/common.h"
#include "merge/render/explanation.h"
#include "merge/report/options.h"

namespace trapline::cli {
namespace {

struct Options {
  InputOptions input;
  VcpuFilter filter;
  std::string around = "max", format = "text", output;
};

int run(const Options& options) {
  std::optional<TimeSpec> around;
  if (options.around != "max") {
    auto time = parse_time_spec("--around", options.around);
    if (!time) return fail_with(time.error());
    around = *time;
  }
  auto explained = [&] {
    ProgressLine progress;
    return run_explain(options.input, around, options.filter, progress.callback());
  }();
  if (!explained) return fail_with(explained.error());
  const auto printed = print_to(options.output, [&](std::ostream& out) {
    if (options.format == "json") {
      print_json(*explained, out);
    } else {
      print_text(*explained, out, options.output.empty() ? stdout_style() : TextStyle{});
    }
  });
  return printed ? 0 : fail_with(printed.error());
}

}  // namespace

void add_explain(CLI::App& app, int& status) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("explain", "Why one exit took so long, and who kept it waiting");
  add_input_options(*command, options->input);
  add_vcpu_options(*command, options->filter);
  command
      ->add_option("--around", options->around,
                   "max: the longest exit that is no halt; or the one at TIME: seconds of the "
                   "clock, or +TIME since the first event")
      ->type_name("max|TIME")
      ->capture_default_str();
  command->add_option("--format", options->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->add_option("-o,--output", options->output, "Write to this file")->type_name("FILE");
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace trapline::cli
