#include <fmt/format.h>

#include <csignal>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "merge/cli/commands.h"
#include "merge/cli/config.h"
#include "merge/cli/help.h"
#include "merge/cli/suggest.h"
#include "merge/cli/usage_error.h"

int main(int argc, char** argv) {
  using namespace trapline;
  // A reader that has gone (| head) ends a command without a word, whatever was inherited.
  std::signal(SIGPIPE, SIG_DFL);
  CLI::App app{"Kernel, QEMU and guest on one timeline: where the time of a VM exit goes."};
  app.name("trapline");
  app.set_version_flag("--version", TRAPLINE_VERSION);
  app.require_subcommand(1);
  int status = 0;
  cli::add_record(app, status);
  cli::add_report(app, status);
  cli::add_snapshot(app, status);
  cli::add_view(app, status);
  cli::add_explain(app, status);
  cli::add_stalls(app, status);
  cli::add_advise(app, status);
  cli::add_top(app, status);
  cli::add_diff(app, status);
  cli::add_bench(app, status);
  cli::add_timeline(app, status);
  cli::add_export(app, status);
  cli::add_doctor(app, status);
  cli::add_info(app, status);
  cli::add_print(app, status);
  cli::add_events(app, status);
  cli::add_symbols(app, status);
  cli::add_sync(app, status);
  cli::add_config(app, status);
  cli::add_help(app, status);
  cli::add_complete(app, status);
  cli::arrange_help(app);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    fmt::print("{}", app.help());
    return static_cast<int>(ErrorKind::kUsage);
  }
  if (auto message = cli::unknown_command(app, words)) {
    return cli::fail_with({std::move(*message), ErrorKind::kUsage});
  }
  const auto config = cli::load_config();
  const bool with_config = !cli::needs_no_config(words);
  if (!config && with_config) return cli::fail_with(config.error());
  try {
    if (with_config) cli::apply_config(*config, app);
    app.parse(argc, argv);
    return status;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ConfigError)) {
      return cli::fail_with({error.what(), ErrorKind::kUsage});
    }
    return cli::fail_with({cli::usage_error(app, words, error), ErrorKind::kUsage});
  } catch (const std::exception& error) {
    return cli::fail_with({error.what(), ErrorKind::kRuntime});
  }
}
