// trapline config: the user's defaults, and where each comes from.
#include <fmt/format.h>

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/cli/commands.h"
#include "merge/cli/config.h"
#include "merge/cli/help.h"

namespace trapline::cli {
namespace {

struct ConfigArguments {
  bool example = false;
};

std::string value_of(const Setting& setting) {
  if (setting.values.empty()) return setting.built_in.empty() ? "-" : setting.built_in;
  return printable(fmt::format("{}", fmt::join(setting.values, " ")));
}

int print_configuration(const ConfigArguments& options) {
  if (options.example) {
    fmt::print("{}", example_config());
    return 0;
  }
  const auto config = load_config();
  if (!config) return fail_with(config.error());
  if (config->file.empty()) {
    fmt::print("no configuration file: HOME is not set, or TRAPLINE_CONFIG is empty\n");
  } else {
    fmt::print(
        "{}{}\n", printable(config->file),
        config->found ? "" : " does not exist; trapline config --example prints one to begin with");
  }
  std::size_t width = 5;
  for (const Setting& setting : config->settings) width = std::max(width, value_of(setting).size());
  fmt::print("\n{:<14}{:<{}}  {:<22}{}\n", "setting", "value", width, "variable", "from");
  for (const Setting& setting : config->settings) {
    fmt::print("{:<14}{:<{}}  {:<22}{}\n", setting.name, value_of(setting), width, setting.variable,
               printable(setting.origin));
  }
  return 0;
}

}  // namespace

void add_config(CLI::App& app, int& status) {
  auto options = std::make_shared<ConfigArguments>();
  CLI::App* command = app.add_subcommand("config", "Print the defaults, and where each comes from");
  command->add_flag("--example", options->example, "Print a configuration file to begin with");
  command->callback([options, &status] { status = print_configuration(*options); });
}

}  // namespace trapline::cli
