#include "merge/cli/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "merge/record/recorder.h"

namespace trapline::cli {
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
    option->clear();  // an option that is typed replaces the variable
  }
}

// Returns whether a recording of the command line, or the one that is read without any, is a
// session that contains `part`.
bool is_in_session(const CLI::App& command, const char* part) {
  std::vector<std::string> paths;
  for (const CLI::Option* option : command.get_options([](const CLI::Option* one) {
         return one->get_positional() || one->check_lname("before") || one->check_lname("after");
       }))
    paths.insert(paths.end(), option->results().begin(), option->results().end());
  // Like name_recording().
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

}  // namespace

void apply_environment(CLI::App& app) {
  set_in_all(app, "--clock", "TRAPLINE_CLOCK", environment("TRAPLINE_CLOCK"));
  set_in_all(app, "--buffer-size", "TRAPLINE_BUFFER_SIZE", environment("TRAPLINE_BUFFER_SIZE"));
  const std::string color = environment("TRAPLINE_COLOR");
  const bool no_color = color.empty() && !environment("NO_COLOR").empty();
  set_in_all(app, "--color", "TRAPLINE_COLOR", no_color ? "never" : color);
  // Set when the recordings are known, because a session's files take precedence over the user's
  // defaults.
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    if (command->get_name() == "record" || !command->get_option_no_throw("--symbols")) continue;
    command->parse_complete_callback([command] {
      complete_input(*command, "--symbols", "TRAPLINE_SYMBOLS", "symbols");
      complete_input(*command, "--trace-events", "TRAPLINE_TRACE_EVENTS", "trace-events-all");
    });
  }
}

bool needs_no_environment(const std::vector<std::string>& words) {
  if (!words.empty() && (words[0] == "help" || words[0] == "complete")) return true;
  return std::any_of(
      words.begin(), std::find(words.begin(), words.end(), "--"), [](const auto& word) {
        return word == "-h" || word.starts_with("--help") || word == "--version" || word == "-V";
      });
}

}  // namespace trapline::cli
