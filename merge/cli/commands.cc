#include "merge/cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/inherited.h"
#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "merge/cli/help.h"
#include "merge/cli/usage_error.h"
#include "merge/record/recorder.h"

namespace trapline::cli {

// Reads the user's defaults from the environment: TRAPLINE_CLOCK, TRAPLINE_BUFFER_SIZE,
// TRAPLINE_SYMBOLS, TRAPLINE_TRACE_EVENTS, TRAPLINE_COLOR and NO_COLOR. An option that is typed
// takes precedence.

namespace {

std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// Sets the option as if the user had typed it.
void set(CLI::Option& option, const char* variable, const std::vector<std::string>& values) {
  try {
    for (const std::string& value : values) option.add_result(value);
    option.run_callback();
  } catch (const CLI::Error& error) {
    throw CLI::ConfigError(fmt::format("{}: {}", variable, error.what()));
  }
}

void set_in_all(CLI::App& app, const char* name, const char* variable, const std::string& value) {
  if (value.empty()) return;
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    CLI::Option* option = command->get_option_no_throw(name);
    if (option == nullptr) continue;
    set(*option, variable, {value});
    option->clear();  // an option that is typed replaces the variable's values
  }
}

// Returns whether a recording of the command line, or the default recording if none is named, is a
// session that contains `part`.
bool is_in_session(const CLI::App& command, const char* part) {
  std::vector<std::string> paths;
  for (const CLI::Option* option : command.get_options([](const CLI::Option* one) {
         return one->get_positional() || one->check_lname("before") || one->check_lname("after");
       }))
    paths.insert(paths.end(), option->results().begin(), option->results().end());
  // Without a recording, the default one is read, as name_recording() chooses it.
  if (paths.empty() && command.get_option_no_throw("recording") != nullptr)
    paths.emplace_back(record::kDefaultFolder);
  return std::ranges::any_of(
      paths, [part](const std::string& path) { return is_there(path + '/' + part); });
}

void complete_input(CLI::App& command, const char* name, const char* variable, const char* part) {
  CLI::Option* option = command.get_option_no_throw(name);
  const std::string text = environment(variable);
  if (option == nullptr || option->count() != 0 || is_in_session(command, part)) return;
  std::vector<std::string> values;
  if (option->get_expected_max() > 1) {
    for (const std::string_view file : split(text, ':'))
      if (!file.empty()) values.emplace_back(file);
  } else if (!text.empty()) {
    values.push_back(text);
  }
  if (!values.empty()) set(*option, variable, values);
}

// Makes the values of these variables the defaults of all commands' options, before the command
// line is read. Throws CLI::ConfigError if an option refuses a value.
void apply_environment(CLI::App& app) {
  set_in_all(app, "--clock", "TRAPLINE_CLOCK", environment("TRAPLINE_CLOCK"));
  set_in_all(app, "--buffer-size", "TRAPLINE_BUFFER_SIZE", environment("TRAPLINE_BUFFER_SIZE"));
  const std::string color = environment("TRAPLINE_COLOR");
  const bool no_color = color.empty() && !environment("NO_COLOR").empty();
  set_in_all(app, "--color", "TRAPLINE_COLOR", no_color ? "never" : color);
  // Symbols and trace events are set when the recordings are known, because a session's files take
  // precedence over the user's defaults.
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    if (command->get_name() == "record" || !command->get_option_no_throw("--symbols")) continue;
    command->parse_complete_callback([command] {
      complete_input(*command, "--symbols", "TRAPLINE_SYMBOLS", "symbols");
      complete_input(*command, "--trace-events", "TRAPLINE_TRACE_EVENTS", "trace-events-all");
    });
  }
}

// Returns true for help and the version, which are printed whatever the environment contains.
bool needs_no_environment(const std::vector<std::string>& words) {
  if (!words.empty() && (words[0] == "help" || words[0] == "complete")) return true;
  return std::any_of(
      words.begin(), std::find(words.begin(), words.end(), "--"), [](const auto& word) {
        return word == "-h" || word.starts_with("--help") || word == "--version" || word == "-V";
      });
}

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
  for (AddCommand* const add :
       {add_record, add_report, add_snapshot, add_explain, add_stalls, add_advise, add_top,
        add_diff, add_bench, add_timeline, add_export, add_doctor, add_info, add_print, add_events,
        add_symbols, add_sync, add_help, add_complete})
    add(app, status);
  app.add_subcommand("version", "Print the version")->group("")->callback([] {
    std::cout << TRAPLINE_VERSION << '\n';
  });
  arrange_help(app);
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) {
    std::cout << app.help();
    return static_cast<int>(ErrorKind::kUsage);
  }
  // --json means --format=json, as in other tools, but not in another program's words after --.
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
  // Help, versions and lists are printed without print_to(), so they are still in stdout's buffer
  // and an error of writing shows only here.
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (status != 0 || written || errno == EPIPE) return status;
  return fail_with(
      {fmt::format("stdout: cannot write: {}", std::strerror(errno)), ErrorKind::kRuntime});
}

}  // namespace trapline::cli
