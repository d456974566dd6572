#include "merge/cli/usage_error.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "backend_ftrace/base/size.h"
#include "backend_ftrace/base/text.h"
#include "merge/cli/help.h"

namespace trapline::cli {
namespace {

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::string hint(const std::string& word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view name = nearest(word, views);
  return name.empty() ? "" : fmt::format(", did you mean {}?", name);
}

// Returns the Error for an option that `command`, or `app` if that is null, does not have; nullopt
// for other errors.
std::optional<std::string> unknown_option(const CLI::App& app, const CLI::App* command) {
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
    return fmt::format("{}there is no option {}{} (trapline{} --help lists them)",
                       command != nullptr ? command->get_name() + ": " : "", name,
                       hint(name, names), command != nullptr ? " " + command->get_name() : "");
  }
  return std::nullopt;
}

// An invalid value whose message needs no option's name in front.
struct ValueError : CLI::ParseError {
  explicit ValueError(std::string text)
      : ParseError("ValueError", std::move(text), CLI::ExitCodes::ConversionError) {}
};

// Returns "--output DIR", as the user must write it.
std::string with_argument(const CLI::Option& option) {
  const std::string argument = argument_of(option);
  return argument.empty() ? option.get_name() : fmt::format("{} {}", option.get_name(), argument);
}

// Explains an error that concerns several options, or the number of an option's values; empty: it
// is another error.
std::string wrong_combination(const CLI::App& command, const CLI::ParseError& error) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (error.get_name() == "ArgumentMismatch" &&
        std::string_view(error.what()).starts_with(name + ":")) {
      const std::size_t given = option->results().size();
      if (given > static_cast<std::size_t>(option->get_expected_max()))
        return fmt::format("{} was given {} times; give it once", name, given);
      return fmt::format("{} has no value; give {}", name, with_argument(*option));
    }
    if (option->count() == 0) continue;
    for (const CLI::Option* needed : option->get_needs()) {
      if (error.get_name() == "RequiresError" && needed->count() == 0)
        return fmt::format("{} needs {}; add {}", name, needed->get_name(), with_argument(*needed));
    }
    for (const CLI::Option* other : option->get_excludes()) {
      if (error.get_name() == "ExcludesError" && other->count() != 0)
        return fmt::format("{} and {} exclude each other; give one of them", name,
                           other->get_name());
    }
  }
  return {};
}

}  // namespace

CLI::Validator one_of(const std::vector<std::string>& names) {
  const auto check = [names](const std::string& value) -> std::string {
    if (std::ranges::find(names, value) != names.end()) return {};
    return fmt::format("unknown '{}'; {} {}", value,
                       names.size() == 1 ? "the only value is" : "there are",
                       fmt::join(names, ", "));
  };
  return {check, fmt::format("{{{}}}", fmt::join(names, ","))};
}

CLI::Validator size_in(std::uint64_t unit, std::uint64_t least, std::uint64_t most) {
  const auto transform = [=](std::string& text) -> std::string {
    const auto bytes = parse_size("", text);
    if (!bytes) return bytes.error().message.substr(2);
    if (*bytes < least * unit || *bytes > most * unit || *bytes % unit != 0) {
      return fmt::format("{} is out of range; give {} to {}{}", text, size_text(least * unit),
                         size_text(most * unit), unit == kKib ? "" : ", in whole M");
    }
    text = std::to_string(*bytes / unit);
    return {};
  };
  return {transform, ""};
}

std::string out_of_range(std::string_view value, std::string_view least, std::string_view most) {
  if (most.size() >= 10) return fmt::format("{} is out of range; give {} or more", value, least);
  return fmt::format("{} is out of range; give a number from {} to {}", value, least, most);
}

void refuse_empty(CLI::Option& option) {
  option.check(
      [](const std::string& text) -> std::string {
        return text.empty() ? "the value is empty; give one, or leave the option out" : "";
      },
      "");
}

void refuse_text(const std::string& option, const std::string& value) {
  // In `--pid $(pgrep qemu) --duration 1s`, if no QEMU runs, --pid takes --duration as its value.
  throw ValueError(value.starts_with("--")
                       ? fmt::format("{} has no value: {} follows it", option, value)
                       : fmt::format("{}: '{}' is not a number", option, value));
}

std::optional<std::string> unknown_command(const CLI::App& app,
                                           const std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with('-')) return std::nullopt;
  const std::vector<std::string> names = commands_of(app);
  if (std::find(names.begin(), names.end(), words[0]) != names.end()) return std::nullopt;
  return fmt::format("'{}' is not a command{} (trapline --help lists them)", words[0],
                     hint(words[0], names));
}

std::string usage_error(CLI::App& app, const std::vector<std::string>& words,
                        const CLI::ParseError& error) {
  const auto commands = app.get_subcommands(
      [&](const CLI::App* one) { return !words.empty() && one->get_name() == words[0]; });
  if (auto message = unknown_option(app, commands.empty() ? nullptr : commands[0])) return *message;
  if (commands.empty()) return "no command was given (trapline --help lists them)";
  const CLI::App& command = *commands[0];
  if (error.get_name() == "ValueError" || error.get_name() == "ValidationError")
    return error.what();
  if (std::string message = wrong_combination(command, error); !message.empty()) return message;
  std::string fault = error.what();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    std::vector<std::string> extra = command.remaining();
    std::ranges::reverse(extra);
    fault = fmt::format("unexpected argument '{}'", fmt::join(extra, " "));
  }
  const auto missing = command.get_options([&](const CLI::Option* option) {
    return error.get_name() == "RequiredError" && option->get_required() && option->count() == 0;
  });
  const auto word = std::ranges::find_if(
      missing, [](const CLI::Option* option) { return !option->nonpositional(); });
  if (word != missing.end()) {
    fault = fmt::format("no {} was given", upper((*word)->get_name()));
  } else if (!missing.empty()) {
    return fmt::format("{} is missing; give {}", missing[0]->get_name(),
                       with_argument(*missing[0]));
  }
  return fmt::format("{}: {} (trapline {} --help prints the usage)", words[0], fault, words[0]);
}

}  // namespace trapline::cli
