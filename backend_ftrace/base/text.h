// Text from outside: parsing numbers, matching name patterns, and making it safe to print.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trapline {

// Parses the whole text as an unsigned number: decimal, or hexadecimal after 0x. Returns nullopt
// for a sign, white space, a suffix, or a number that overflows.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

// Removes the number at the text's beginning. False, and nothing is removed, when there is none or
// Number cannot hold it.
template <std::integral Number>
[[nodiscard]] bool take_number(std::string_view& text, Number& value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// Removes the number at the text's beginning and the `end` that follows. False, and nothing is
// removed, when they are not there.
template <std::integral Number>
[[nodiscard]] bool take_number_to(std::string_view& text, Number& value, char end, int base = 10) {
  std::string_view rest = text;
  if (!take_number(rest, value, base) || !rest.starts_with(end)) return false;
  text = rest.substr(1);
  return true;
}

// Returns whether `name` matches `pattern`, where * stands for any run of characters and ? for one.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name);

// Returns the name nearest to `wanted` by edit distance, if it is near enough to be a typing
// mistake (at most a third of its length); "" otherwise.
[[nodiscard]] std::string_view nearest(std::string_view wanted,
                                       std::span<const std::string_view> names);

// Makes control characters, escape sequences and invalid UTF-8 visible (\x1b, \n): a guest can
// write into the strings that QEMU traces.
[[nodiscard]] std::string printable(std::string_view text);

// Returns the text with the letters A to Z in lower case.
[[nodiscard]] std::string lowered(std::string_view text);

// Removes the first word, delimited by blanks and tabs, from the line; returns "" at the line's
// end.
std::string_view take_word(std::string_view& line);

// Removes `what` from the text's beginning. False, and nothing is removed, when it is not there.
inline bool take_text(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

// Removes the first line from the text and returns it without its line end.
inline std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(line.size() < text.size() ? line.size() + 1 : line.size());
  return line;
}

// Splits the text at the separators; an empty text gives one empty part.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

// Returns what follows the last slash of a path.
[[nodiscard]] constexpr std::string_view basename_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

[[nodiscard]] constexpr double mib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

// Formats a time as perf and trace-cmd do: seconds with nine decimal places.
[[nodiscard]] std::string seconds_text(std::uint64_t ns);

// Returns the text without leading and trailing white space.
[[nodiscard]] std::string_view trimmed(std::string_view text);

// Joins words, quoted as a shell needs them: "'a b' c".
[[nodiscard]] std::string shell_text(const std::vector<std::string>& words);

}  // namespace trapline
