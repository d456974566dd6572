// Text that comes from outside: numbers, name patterns, and what may be shown on a terminal.
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

// The whole text as an unsigned number: decimal, or hexadecimal after 0x. Nothing else is accepted:
// no sign, no white space, no suffix; nothing on overflow.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

// Removes the number that the text begins with; false, and nothing is removed, where none does, or
// it is too large.
template <std::integral Number>
[[nodiscard]] bool take_number(std::string_view& text, Number& value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// The same for one that `end` follows, which is removed too.
template <std::integral Number>
[[nodiscard]] bool take_number_to(std::string_view& text, Number& value, char end, int base = 10) {
  std::string_view rest = text;
  if (!take_number(rest, value, base) || !rest.starts_with(end)) return false;
  text = rest.substr(1);
  return true;
}

// A duration or point in time in nanoseconds: a decimal number with an optional fraction and one of
// the units ns, us, ms, s, m (minutes). A bare number is taken in `default_unit` nanoseconds.
[[nodiscard]] std::optional<std::uint64_t> parse_time(std::string_view text,
                                                      std::uint64_t default_unit = 1'000'000'000);

// Whether `name` matches `pattern`, where * stands for any run of characters and ? for one.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name);

// The name nearest to `wanted` by edit distance, when it is near enough to be a slip of the finger
// (at most a third of its length); empty otherwise.
[[nodiscard]] std::string_view nearest(std::string_view wanted,
                                       std::span<const std::string_view> names);

// The text with control characters, escape sequences and invalid UTF-8 made visible (\x1b, \n):
// a guest can write into the strings that QEMU traces.
[[nodiscard]] std::string printable(std::string_view text);

// Removes the first word, between blanks and tabs, from the line; "" at its end.
std::string_view take_word(std::string_view& line);

// Removes the first line from the text, with its line end, and returns it without.
inline std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(line.size() < text.size() ? line.size() + 1 : line.size());
  return line;
}

// What stands between the separators; one empty part of an empty text.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

// What comes after the last slash of a path.
[[nodiscard]] constexpr std::string_view basename_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// To be printed.
[[nodiscard]] constexpr double mib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

// A time as the field's tools write it: seconds with nine decimal places.
[[nodiscard]] std::string seconds_text(std::uint64_t ns);

// Without leading and trailing white space.
[[nodiscard]] std::string_view trimmed(std::string_view text);

// As they are typed in a shell: "'a b' c".
[[nodiscard]] std::string shell_text(const std::vector<std::string>& words);

}  // namespace trapline
