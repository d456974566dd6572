#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/inherited.h"
#include "merge/cli/commands.h"
#include "merge/cli/environment.h"
#include "merge/cli/help.h"
#include "merge/cli/suggest.h"
#include "merge/cli/usage_error.h"

namespace trapline::cli {
namespace {

// Prints the text of --help and --version. run_command() flushes it, and checks that it was
// written.
int print_what_ends(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream text;
  const int status = app.exit(error, text, text);
  std::cout << text.str();
  return status;
}

int run_words(int argc, char** argv) {
  CLI::App app{"Kernel, QEMU and guest on one timeline: where the time of a VM exit goes."};
  app.name("trapline");
  app.set_version_flag("-V,-v,--version", TRAPLINE_VERSION);
  app.require_subcommand(1);
  int status = 0;
  add_record(app, status);
  add_report(app, status);
  add_snapshot(app, status);
  add_explain(app, status);
  add_stalls(app, status);
  add_advise(app, status);
  add_top(app, status);
  add_diff(app, status);
  add_bench(app, status);
  add_timeline(app, status);
  add_export(app, status);
  add_doctor(app, status);
  add_info(app, status);
  add_print(app, status);
  add_events(app, status);
  add_symbols(app, status);
  add_sync(app, status);
  add_help(app, status);
  add_complete(app, status);
  app.add_subcommand("version", "Print the version")->group("")->callback([] {
    std::cout << TRAPLINE_VERSION << '\n';
  });
  arrange_help(app);
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    std::cout << app.help();
    return static_cast<int>(ErrorKind::kUsage);
  }
  // As other tools have it; what follows -- is another program's.
  for (const CLI::App* command : app.get_subcommands({}))
    if (command->get_name() == words[0] && command->get_option_no_throw("--format") != nullptr)
      std::replace(words.begin(), std::find(words.begin(), words.end(), "--"),
                   std::string("--json"), std::string("--format=json"));
  if (auto message = unknown_command(app, words))
    return fail_with({std::move(*message), ErrorKind::kUsage});
  try {
    if (!needs_no_environment(words)) apply_environment(app);
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    return status;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return print_what_ends(app, error);
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ConfigError))
      return fail_with({error.what(), ErrorKind::kUsage});
    return fail_with({usage_error(app, words, error), ErrorKind::kUsage});
  } catch (const std::exception& error) {
    return fail_with({error.what(), ErrorKind::kRuntime});
  }
}

}  // namespace

int run_command(int argc, char** argv) {
  fill_standard_descriptors();  // must come before any file of ours is opened
  take_over_signals();
  const int status = run_words(argc, argv);
  // Help, versions and lists are printed without print_to(). They are written only now, because
  // std::cout has no buffer of its own.
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (status != 0 || written || errno == EPIPE) return status;
  return fail_with(
      {fmt::format("stdout: cannot write: {}", std::strerror(errno)), ErrorKind::kRuntime});
}

}  // namespace trapline::cli
