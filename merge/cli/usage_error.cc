#include "merge/cli/usage_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "merge/cli/help.h"
#include "merge/cli/suggest.h"

namespace trapline::cli {
namespace {

struct Halves {
  std::string_view before, after;
};

// `said` around the first `middle`; nothing where it is not in it.
std::optional<Halves> split(std::string_view said, std::string_view middle) {
  const std::size_t at = said.find(middle);
  if (at == std::string_view::npos) return std::nullopt;
  return Halves{said.substr(0, at), said.substr(at + middle.size())};
}

// "50.000000" as 50.
std::string_view short_number(std::string_view text) {
  if (text.find('.') == std::string_view::npos) return text;
  while (text.ends_with('0')) text.remove_suffix(1);
  if (text.ends_with('.')) text.remove_suffix(1);
  return text;
}

// CLI11's "64 to 4194304", or "[64 - 4194304]" since its version 2.3; a limit of ten digits is
// none.
std::string range_text(std::string_view range) {
  if (range.starts_with('[')) range = range.substr(1, range.size() - 2);
  auto limits = split(range, " to ");
  if (!limits) limits = split(range, " - ");
  if (!limits) return std::string(range);
  const std::string_view least = short_number(limits->before), most = short_number(limits->after);
  if (most.size() >= 10) return fmt::format("{} or more", least);
  return fmt::format("a number from {} to {}", least, most);
}

std::string not_a_number(std::string_view name, std::string_view value) {
  // `--pid $(pgrep qemu) --duration 1s`, where pgrep found none.
  if (value.starts_with("--")) return fmt::format("{} has no value: {} follows it", name, value);
  return fmt::format("{}: '{}' is not a number", name, value);
}

std::string out_of_range(std::string_view name, std::string_view value, std::string_view range) {
  if (value.find_first_not_of("-+.0123456789") != std::string_view::npos) {
    return not_a_number(name, value);
  }
  return fmt::format("{}: {} is out of range; give {}", name, value, range_text(range));
}

// "--output DIR", as it has to be written.
std::string with_argument(const CLI::App& command, std::string_view name) {
  const CLI::Option* option = command.get_option_no_throw(std::string(name));
  const std::string argument = option == nullptr ? "" : argument_of(*option);
  return argument.empty() ? std::string(name) : fmt::format("{} {}", name, argument);
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return result;
}

// A fault that concerns several options, or none; nothing where the text is not one of these.
std::optional<std::string> wrong_combination(const CLI::App& command, std::string_view said) {
  if (const auto names = split(said, " requires ")) {
    return fmt::format("{} needs {}; add {}", names->before, names->after,
                       with_argument(command, names->after));
  }
  if (const auto names = split(said, " excludes ")) {
    return fmt::format("{} and {} exclude each other; give one of them", names->before,
                       names->after);
  }
  if (const auto name = split(said, ": 1 required ")) {
    return fmt::format("{} has no value; give {}", name->before,
                       with_argument(command, name->before));
  }
  if (const auto name = split(said, ": At Most 1 required but received ")) {
    return fmt::format("{} was given {} times; give it once", name->before, name->after);
  }
  if (const auto name = split(said, " is required"); name && said.starts_with("-")) {
    return fmt::format("{} is missing; give {}", name->before,
                       with_argument(command, name->before));
  }
  return std::nullopt;
}

}  // namespace

std::string value_error(std::string_view said) {
  // CLI11's words: "Could not convert: --pid = x", "--port: Value 99999 not in range 0 to 65535",
  // "--format: x not in {text,json}".
  constexpr std::string_view kConvert = "Could not convert: ";
  if (said.starts_with(kConvert)) {
    if (const auto value = split(said.substr(kConvert.size()), " = ")) {
      return not_a_number(value->before, value->after);
    }
  }
  if (const auto name = split(said, ": Value ")) {
    if (const auto value = split(name->after, " not in range ")) {
      return out_of_range(name->before, value->before, value->after);
    }
  }
  const auto list = split(said, " not in {");
  const auto name = split(said, ": ");
  if (list && name && list->after.ends_with('}')) {
    std::string names(list->after.substr(0, list->after.size() - 1));
    for (std::size_t at = 0; (at = names.find(',', at)) != std::string::npos; at += 2) {
      names.replace(at, 1, ", ");
    }
    return fmt::format(
        "{}: unknown '{}'; {} {}", name->before, list->before.substr(name->before.size() + 2),
        names.find(',') == std::string::npos ? "the only value is" : "there are", names);
  }
  return std::string(said);
}

std::string usage_error(CLI::App& app, const std::vector<std::string>& words,
                        const CLI::ParseError& error) {
  if (auto message = unknown_option(app, words)) return *message;
  const auto commands = app.get_subcommands(
      [&](const CLI::App* one) { return !words.empty() && one->get_name() == words[0]; });
  if (commands.empty()) return "no command was given (trapline --help lists them)";
  const std::string_view said = error.what();
  if (std::string message = value_error(said); message != said) return message;
  if (auto message = wrong_combination(*commands[0], said)) return *message;
  const std::string usage = fmt::format("(trapline {} --help prints the usage)", words[0]);
  if (const auto name = split(said, " is required")) {
    return fmt::format("{}: no {} was given {}", words[0], upper(name->before), usage);
  }
  if (const auto extra = split(said, " not expected: ")) {
    return fmt::format("{}: unexpected argument '{}' {}", words[0], extra->after, usage);
  }
  return fmt::format("{}: {} {}", words[0], said, usage);
}

void refuse_negative_counts(CLI::App& app) {
  // Conversion takes -1 for the greatest number.
  const auto check = [](const std::string& value) {
    return value.starts_with('-') ? fmt::format("Value {} not in range 0 to 9999999999", value)
                                  : "";
  };
  for (CLI::App* command : app.get_subcommands({})) {
    for (CLI::Option* option : command->get_options()) {
      if (option->get_type_name() == "UINT") option->check(check, "");
    }
  }
}

}  // namespace trapline::cli
