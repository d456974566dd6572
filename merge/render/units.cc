#include "merge/render/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

constexpr TimeUnit kTimeUnits[] = {{"ns", 1}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}};
constexpr TimeUnit kCycleUnits[] = {{"cyc", 1}, {"kcyc", 1e3}, {"Mcyc", 1e6}, {"Gcyc", 1e9}};

std::span<const TimeUnit> units(bool cycles) {
  return cycles ? std::span<const TimeUnit>(kCycleUnits) : std::span<const TimeUnit>(kTimeUnits);
}

const TimeUnit& unit_of(std::uint64_t value, bool cycles) {
  const auto all = units(cycles);
  std::size_t best = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (static_cast<double>(value) >= all[i].size) best = i;
  }
  return all[best];
}

}  // namespace

TimeUnit choose_unit(std::span<const std::uint64_t> values, bool cycles) {
  std::vector<std::uint64_t> sorted;
  for (const std::uint64_t value : values) {
    if (value != 0) sorted.push_back(value);
  }
  if (sorted.empty()) return units(cycles)[1];
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return unit_of(*middle, cycles);
}

std::string in_unit(std::uint64_t value, const TimeUnit& unit) {
  if (unit.size == 1) return grouped(value);
  const double number = static_cast<double>(value) / unit.size;
  if (value == 0) return "0";
  if (number < 9.995) return fmt::format("{:.2f}", number);
  if (number < 99.95) return fmt::format("{:.1f}", number);
  return grouped(static_cast<std::uint64_t>(number + 0.5));
}

std::string duration_text(std::uint64_t value, bool cycles) {
  const TimeUnit& unit = unit_of(value, cycles);
  return fmt::format("{} {}", in_unit(value, unit), unit.name);
}

std::string in_unit(std::optional<std::uint64_t> value, const TimeUnit& unit) {
  return value ? in_unit(*value, unit) : "-";
}

std::string duration_text(std::optional<std::uint64_t> value, bool cycles) {
  return value ? duration_text(*value, cycles) : "-";
}

std::string percent_text(std::optional<std::uint64_t> share, std::uint64_t whole) {
  return share ? percent_text(*share, whole) : "-";
}

std::string csv_number(std::optional<std::uint64_t> value) {
  return value ? std::to_string(*value) : "";
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

std::string percent_text(std::uint64_t share, std::uint64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f}%", 100 * static_cast<double>(share) / static_cast<double>(whole));
}

std::string time_text(std::uint64_t ns, bool cycles) {
  if (cycles) return std::to_string(ns);
  return seconds_text(ns);
}

}  // namespace trapline
