#include "merge/cli/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "backend_ftrace/base/text.h"

namespace trapline::cli {
namespace {

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

CLI::App* command_named(CLI::App& app, const std::string& name) {
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    if (command->get_name() == name) return command;
  return nullptr;
}

std::string hint(const std::string& word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view name = nearest(word, views);
  return name.empty() ? "" : fmt::format(", did you mean {}?", name);
}

struct Removed {
  std::string_view name, instead;
};
// Commands and options of earlier versions.
constexpr Removed kRemoved[] = {
    {"--kernel-samples", "run `perf record -a -g` beside the recording"},
    {"--window", "group the rows of --rows exits where you load them"},
    {"config", "set the TRAPLINE_ variables of man trapline"},
    {"view", "use `trapline report RECORDING --open`"},
    {"--no-pager", "nothing is paged; for a pager add `| less -R` (and --color always)"},
    {"--pager", "add `| less -R` (and --color always)"},
};

// Returns nullopt for a name that never existed.
std::optional<std::string> removed(const std::string& word) {
  const auto known = std::ranges::find(kRemoved, word, &Removed::name);
  if (known == std::end(kRemoved)) return std::nullopt;
  return fmt::format("{} was removed; {}", word, known->instead);
}

}  // namespace

std::optional<std::string> unknown_command(const CLI::App& app,
                                           const std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with('-')) return std::nullopt;
  const std::vector<std::string> names = commands_of(app);
  if (std::find(names.begin(), names.end(), words[0]) != names.end()) return std::nullopt;
  if (auto message = removed(words[0])) return message;
  return fmt::format("'{}' is not a command{} (trapline --help lists them)", words[0],
                     hint(words[0], names));
}

std::optional<std::string> unknown_option(CLI::App& app, const std::vector<std::string>& words) {
  CLI::App* command = words.empty() ? nullptr : command_named(app, words[0]);
  std::vector<std::string> names;
  for (const CLI::Option* option : (command != nullptr ? *command : app).get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  for (const std::string& word : app.remaining(true)) {
    if (word == "--") break;
    const std::string name = word.substr(0, word.find('='));
    if (name.size() < 2 || name[0] != '-') continue;
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (auto message = removed(name)) return message;
    const std::string where = command != nullptr ? "trapline " + words[0] : "trapline";
    return fmt::format("{}there is no option {}{} ({} --help lists them)",
                       command != nullptr ? words[0] + ": " : "", name, hint(name, names), where);
  }
  return std::nullopt;
}

}  // namespace trapline::cli
