#include "backend_ftrace/base/duration.h"

#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

// A unit comes before the units that are its suffix: "ms" before "s".
constexpr std::array<std::pair<std::string_view, std::uint64_t>, 8> kUnits{{{"ns", 1},
                                                                            {"us", 1'000},
                                                                            {"\u00b5s", 1'000},
                                                                            {"ms", 1'000'000},
                                                                            {"min", 60 * kSecond},
                                                                            {"s", kSecond},
                                                                            {"m", 60 * kSecond},
                                                                            {"h", 3600 * kSecond}}};

std::uint64_t take_unit(std::string_view& text) {
  for (const auto& [suffix, nanoseconds] : kUnits) {
    if (!text.ends_with(suffix)) continue;
    text.remove_suffix(suffix.size());
    return nanoseconds;
  }
  return 0;
}

bool is_number(std::string_view text) {
  bool digit = false;
  bool dot = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.' && !dot && digit && i + 1 < text.size()) {
      dot = true;
    } else if (c >= '0' && c <= '9') {
      digit = true;
    } else {
      return false;
    }
  }
  return digit;
}

struct Product {
  std::optional<std::uint64_t> ns;  // nullopt: the duration exceeds 64 bits
  bool exact = true;                // false: the duration has digits below a nanosecond
};

Product times(std::string_view number, std::uint64_t unit) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / 2;
  std::uint64_t whole = 0;
  std::size_t i = 0;
  for (; i < number.size() && number[i] != '.'; ++i) {
    whole = whole * 10 + static_cast<std::uint64_t>(number[i] - '0');
    if (whole > kMost / unit) return {};
  }
  Product product{whole * unit, true};
  std::uint64_t place = unit;  // value of the current digit, in units of 1 / scale ns
  std::uint64_t rest = 0;
  for (++i; i < number.size(); ++i) {
    const auto digit = static_cast<std::uint64_t>(number[i] - '0');
    if (digit != 0 && (place == 0 || place % 10 != 0)) product.exact = false;
    place /= 10;
    rest += place * digit;
  }
  *product.ns += rest;
  return product;
}

}  // namespace

Result<std::uint64_t> parse_duration(std::string_view option, std::string_view text,
                                     BareNumber bare) {
  std::string_view number = text;
  std::uint64_t unit = take_unit(number);
  if (!is_number(number)) {
    return fail(ErrorKind::kUsage, "{}: '{}' is not a duration; use 500us or 2ms", option,
                printable(text));
  }
  if (unit == 0 && number.find_first_not_of("0.") == std::string_view::npos) unit = 1;
  if (unit == 0 && bare == BareNumber::kSeconds) unit = kSecond;
  if (unit == 0) {
    return fail(ErrorKind::kUsage, "{}: '{}' has no unit; use {}us, {}ms or {}s", option, text,
                text, text, text);
  }
  const Product product = times(number, unit);
  if (!product.ns) return fail(ErrorKind::kUsage, "{}: {} is too long", option, text);
  if (!product.exact) {
    return fail(ErrorKind::kUsage, "{}: {} is finer than a nanosecond", option, text);
  }
  return *product.ns;
}

}  // namespace trapline
