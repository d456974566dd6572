// Formats errors of the command line in one line like our other errors: what is wrong with what,
// then what to do; a word that does not exist gets the nearest one that does.
#pragma once

#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trapline::cli {

// Returns the Error for a command that `app` does not have; nullopt if `words` begin otherwise.
[[nodiscard]] std::optional<std::string> unknown_command(const CLI::App& app,
                                                         const std::vector<std::string>& words);

// Returns the error as one line. `words` are the command line without the program's name.
[[nodiscard]] std::string usage_error(CLI::App& app, const std::vector<std::string>& words,
                                      const CLI::ParseError& error);

// Accepts a value that is one of `names`. CLI11 puts the option's name before the message.
[[nodiscard]] CLI::Validator one_of(const std::vector<std::string>& names);

// Returns "64 is out of range; give …" with the limits as text; a limit of ten digits is left out.
[[nodiscard]] std::string out_of_range(std::string_view value, std::string_view least,
                                       std::string_view most);
// Accepts a number from `least` to `most`. Pass it to Option::transform(), which runs it before the
// check that the value is a number.
template <typename Number>
[[nodiscard]] CLI::Validator in_range(Number least, Number most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    Number value{};
    const bool is_number = CLI::detail::lexical_cast(text, value);
    if (is_number && value >= least && value <= most) return {};
    // A number that is too large for its type is out of range as well.
    if (!is_number && text.find_first_not_of("-+.0123456789") != std::string::npos) return {};
    return text.empty() ? std::string()
                        : out_of_range(text, fmt::format("{}", least), fmt::format("{}", most));
  };
  return {check, ""};
}

// Accepts a size from `least` to `most` units; the option's value becomes the number of units. Pass
// it to Option::transform().
[[nodiscard]] CLI::Validator size_in(std::uint64_t unit, std::uint64_t least, std::uint64_t most);
// Makes the option refuse an empty value, such as an unset variable: the command would otherwise
// run as if the option had not been given.
void refuse_empty(CLI::Option& option);
// Throws a CLI::ParseError: the option's value is not a number.
[[noreturn]] void refuse_text(const std::string& option, const std::string& value);
// Makes the option refuse values that are not a `Number`; if that is unsigned, also negative ones,
// which a conversion would turn into the greatest numbers.
template <typename Number>
void take_numbers(CLI::Option& option) {
  option.check(
      [name = option.get_name()](const std::string& text) -> std::string {
        if (std::is_unsigned_v<Number> && text.starts_with('-') && !text.starts_with("--"))
          return out_of_range(text, "0", "9999999999");
        Number value{};
        if (!CLI::detail::lexical_cast(text, value)) refuse_text(name, text);
        return {};
      },
      "");
}

}  // namespace trapline::cli
