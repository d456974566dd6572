// trapline snapshot: asks a flight recorder to write what it holds.
#include <fmt/format.h>

#include "backend_ftrace/base/text.h"
#include "merge/cli/commands.h"
#include "merge/cli/common.h"
#include "merge/cli/help.h"
#include "merge/record/flight_control.h"
#include "merge/record/flight_store.h"

namespace trapline::cli {
namespace {

struct SnapshotArguments {
  std::string folder = record::kDefaultFlightFolder, why;
};

Result<void> run_snapshot(const SnapshotArguments& options) {
  const auto path = record::ask_for_snapshot(options.folder, options.why);
  if (!path) return tl::unexpected(path.error());
  fmt::print("{}\n", printable(*path));
  return {};
}

}  // namespace

void add_snapshot(CLI::App& app, int& status) {
  auto options = std::make_shared<SnapshotArguments>();
  CLI::App* command = app.add_subcommand(
      "snapshot", "Write to disk what a flight recorder (record --flight) holds");
  command->add_option("DIR", options->folder, "The recorder's folder")->capture_default_str();
  OptionGroup(*command, kRest)
      .add("--why", options->why, "TEXT", "The reason, kept in the session");
  on_run(*command, status, options, run_snapshot);
}

}  // namespace trapline::cli
