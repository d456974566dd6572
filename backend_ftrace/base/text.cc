#include "backend_ftrace/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace trapline {
namespace {

// Returns the length in bytes of the valid UTF-8 sequence at the beginning of `text`; 0 if there is
// none (overlong forms, surrogates and values above 0x10ffff are invalid).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xc0) == 0x80; };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if (!follows(1) || !follows(2)) return 0;
    if (first == 0xe0 && byte(1) < 0xa0) return 0;
    if (first == 0xed && byte(1) > 0x9f) return 0;
    return 3;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    if (first == 0xf0 && byte(1) < 0x90) return 0;
    if (first == 0xf4 && byte(1) > 0x8f) return 0;
    return 4;
  }
  return 0;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substitution, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::uint64_t> parse_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  }
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc{} || stop != end || text.empty()) return std::nullopt;
  return value;
}

bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  // The last *, and the end of the run that it matches so far.
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string_view nearest(std::string_view wanted, std::span<const std::string_view> names) {
  std::string_view best;
  std::size_t best_distance = wanted.size() / 3 + 1;
  for (const std::string_view name : names) {
    const std::size_t difference =
        name.size() > wanted.size() ? name.size() - wanted.size() : wanted.size() - name.size();
    if (difference >= best_distance) continue;
    const std::size_t distance = edit_distance(wanted, name);
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

namespace {

// Returns the code point of a character that changes the direction of text (U+061c, U+200e, U+200f,
// U+202a to U+202e, U+2066 to U+2069); 0 for other characters.
unsigned direction_mark(std::string_view character) {
  if (character == "\xd8\x9c") return 0x61c;
  if (character.size() != 3 || character[0] != '\xe2') return 0;
  const auto second = static_cast<unsigned char>(character[1]);
  const auto third = static_cast<unsigned char>(character[2]);
  const unsigned code = 0x2000u | (second & 0x3fu) << 6 | (third & 0x3fu);
  const bool turns = code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
                     (code >= 0x2066 && code <= 0x2069);
  return turns ? code : 0;
}

// Returns the length of the printable ASCII at the beginning of `text`. Tests eight bytes at once.
std::size_t plain_length(std::string_view text) {
  constexpr std::uint64_t kEach = 0x0101010101010101, kHigh = 0x80 * kEach;
  std::size_t at = 0;
  for (std::uint64_t bytes = 0; text.size() - at >= sizeof bytes; at += sizeof bytes) {
    std::memcpy(&bytes, text.data() + at, sizeof bytes);
    // The high bit of a byte is set if the byte is below 0x20, or 0x7f or more; a byte that
    // borrows may set that of the next one, too.
    if (((bytes - 0x20 * kEach) | (bytes + kEach) | bytes) & kHigh) break;
  }
  while (at < text.size() && text[at] >= 0x20 && text[at] < 0x7f) ++at;
  return at;
}

}  // namespace

std::string printable(std::string_view text) {
  // Nearly every text is plain ASCII as a whole.
  std::string out(text.substr(0, plain_length(text)));
  text.remove_prefix(out.size());
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    const std::size_t length = utf8_length(text);
    // U+0080 to U+009f are control characters too, and some terminals act on them.
    const bool c1_control = length == 2 && c == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (const unsigned mark = direction_mark(text.substr(0, length)); mark != 0) {
      out += fmt::format("\\u{:04x}", mark);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20 || c == 0x7f || length == 0) {
      out += fmt::format("\\x{:02x}", c);
    } else if (c1_control) {
      out += fmt::format("\\x{:02x}\\x{:02x}", c, static_cast<unsigned char>(text[1]));
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size(); at += parts.back().size() + 1)
    parts.push_back(text.substr(at, text.find(separator, at) - at));
  return parts;
}

std::string lowered(std::string_view text) {
  std::string lower(text);
  for (char& one : lower) one = one >= 'A' && one <= 'Z' ? static_cast<char>(one - 'A' + 'a') : one;
  return lower;
}

std::string_view take_word(std::string_view& line) {
  const std::size_t start = std::min(line.find_first_not_of(" \t"), line.size());
  line.remove_prefix(start);
  const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

std::string seconds_text(std::uint64_t ns) {
  constexpr std::uint64_t kUnit = 1'000'000'000;
  constexpr std::ptrdiff_t kDecimals = 9;
  std::array<char, 24> text;
  char* const point = std::to_chars(text.begin(), text.end(), ns / kUnit).ptr;
  auto rest = static_cast<std::uint32_t>(ns % kUnit);
  for (char* at = point + kDecimals; at != point; --at, rest /= 10)
    *at = static_cast<char>('0' + rest % 10);
  *point = '.';
  return {text.begin(), point + 1 + kDecimals};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string shell_text(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : printable(word)) text += c == '\'' ? "'\\''" : std::string(1, c);
    text += '\'';
  }
  return text;
}

}  // namespace trapline
