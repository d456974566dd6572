// Faults of the command line, in one line in the form of our other errors: what is wrong with what,
// then what to do.
#pragma once

#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace trapline::cli {

// `words` are the command line without the program's name.
[[nodiscard]] std::string usage_error(CLI::App& app, const std::vector<std::string>& words,
                                      const CLI::ParseError& error);

// A value that is one of these. CLI11 puts the option's name before the message.
[[nodiscard]] CLI::Validator one_of(const std::vector<std::string>& names);

// "64 is out of range; give …": of limits as text; one of ten digits is none.
[[nodiscard]] std::string out_of_range(std::string_view value, std::string_view least,
                                       std::string_view most);
// A number from `least` to `most`. To be given to Option::transform(), which puts it before the
// check that the value is a number.
template <typename Number>
[[nodiscard]] CLI::Validator in_range(Number least, Number most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    Number value{};
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return {};
    if (text.empty() || text.find_first_not_of("-+.0123456789") != std::string::npos) return {};
    return out_of_range(text, fmt::format("{}", least), fmt::format("{}", most));
  };
  return {check, ""};
}

// A size of `least` to `most` of the units, of which the option's value becomes the number. To be
// given to Option::transform().
[[nodiscard]] CLI::Validator size_in(std::uint64_t unit, std::uint64_t least, std::uint64_t most);
// Has the option refuse an empty value, as of a variable that is not set: the command would run as
// if the option had not been given.
void refuse_empty(CLI::Option& option);
// Throws a CLI::ParseError where the option's value is none.
void refuse_text(const std::string& option, const std::string& value);
// Has the option refuse what is no such number; of counts also negative ones, which conversion
// takes for the greatest.
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
