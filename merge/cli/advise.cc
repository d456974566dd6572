// trapline advise: what to change, and how much of the vCPUs' busy time that saves.
#include "merge/explain/advise.h"
#include "merge/cli/common.h"

namespace trapline::cli {
namespace {

struct AdviseArguments {
  PassOptions pass;
  std::string assume, format = "text";
  Output output;
};

Result<void> run_advise(AdviseArguments& options) {
  if (auto begun = begin_reading(options.pass.input, options.output); !begun) return begun;
  auto advice = trapline::run_advise(options.pass, options.assume == "no-quota", progress_line());
  if (!advice) return tl::unexpected(std::move(advice).error());
  return print_as(options.format, make_report(*advice), options.output);
}

}  // namespace

void add_advise(CLI::App& app, int& status) {
  auto options = std::make_shared<AdviseArguments>();
  CLI::App* command =
      app.add_subcommand("advise", "Say what to change, and how much busy time that saves");
  add_input_options(*command, options->pass.input);
  add_selection(*command, options->pass.which, {}, false);
  const OptionGroup more(*command, kRest);
  more.choice("--assume", options->assume, {"no-quota"}, "No CPU quota limits the vCPUs");
  const OptionGroup output(*command, kOutput);
  output.choice("--format", options->format, {"text", "json", "csv"}, "text, json or csv");
  add_output(output, options->output);
  on_run(*command, status, options, run_advise);
}

}  // namespace trapline::cli
