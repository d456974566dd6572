#include "merge/report/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

struct TimeUnit {
  std::string_view name;
  double size;  // in nanoseconds, or cycles
};
constexpr TimeUnit kTimeUnits[] = {{"ns", 1}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}};
constexpr TimeUnit kCycleUnits[] = {{"cyc", 1}, {"kcyc", 1e3}, {"Mcyc", 1e6}, {"Gcyc", 1e9}};

}  // namespace

std::string duration_text(std::optional<std::uint64_t> value, bool cycles) {
  if (!value) return "-";
  const std::span<const TimeUnit> units = cycles ? kCycleUnits : kTimeUnits;
  std::size_t at = 0;
  // A value that would be rounded to 1,000 of a unit is 1.00 of the next.
  while (at + 1 < units.size() && static_cast<double>(*value) >= units[at].size * 999.5) ++at;
  const double number = static_cast<double>(*value) / units[at].size;
  std::string text;
  if (at == 0 || number >= 99.95) {
    text = grouped(static_cast<std::uint64_t>(number + 0.5));
  } else {
    const std::size_t decimals = number < 9.995 ? 2 : 1;
    const auto last = static_cast<std::uint64_t>(units[at].size) / (decimals == 2 ? 100 : 10);
    // A value halfway between two decimals is rounded as fmt rounds its nearest double.
    if (*value % last == last / 2) {
      text = fmt::format("{:.{}f}", number, decimals);
    } else {
      text = std::to_string((*value + last / 2) / last);
      text.insert(text.size() - decimals, 1, '.');
    }
  }
  return text.append(1, ' ').append(units[at].name);
}

std::string grouped(std::uint64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string percent_text(std::optional<std::uint64_t> share, std::uint64_t whole) {
  if (!share || whole == 0) return "-";
  const double percent = 100 * static_cast<double>(*share) / static_cast<double>(whole);
  if (*share != 0 && percent < 0.05) return "<0.1%";
  return fmt::format("{:.1f}%", percent);
}

std::string percent_change_text(double change) {
  if (std::isinf(change)) return "new";
  if (change <= -1) return "gone";
  if (change >= 9.995) return fmt::format("x{:.3g}", 1 + change);
  return fmt::format("{:+.1f}%", change * 100);
}

std::string time_text(std::uint64_t ns, bool cycles) {
  return cycles ? std::to_string(ns) : seconds_text(ns);
}

std::size_t text_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace trapline
