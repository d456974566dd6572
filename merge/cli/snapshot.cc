// trapline snapshot: asks a flight recorder to write what it holds.
#include <fmt/format.h>

#include "backend_ftrace/base/text.h"
#include "merge/cli/commands.h"
#include "merge/cli/help.h"
#include "merge/record/flight_control.h"
#include "merge/record/flight_store.h"

namespace trapline::cli {
namespace {

struct SnapshotArguments {
  std::string folder = record::kDefaultFlightFolder, why;
};

}  // namespace

void add_snapshot(CLI::App& app, int& status) {
  auto options = std::make_shared<SnapshotArguments>();
  CLI::App* command = app.add_subcommand(
      "snapshot", "Write to disk what a flight recorder (record --flight) holds");
  command->add_option("DIR", options->folder, "The recorder's folder")->capture_default_str();
  OptionGroup(*command, kRest)
      .add("--why", options->why, "TEXT", "The reason, kept in the session");
  command->callback([options, &status] {
    const auto path = record::ask_for_snapshot(options->folder, options->why);
    status = path ? 0 : fail_with(path.error());
    if (path) fmt::print("{}\n", printable(*path));
  });
}

}  // namespace trapline::cli
