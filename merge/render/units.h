// Numbers for people: durations in a unit that suits them, thousands apart.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trapline {

struct TimeUnit {
  std::string_view name;  // "µs"
  double size;            // in nanoseconds (cycles)
};

// The unit in which most of the values read well; of cycles where `cycles`.
[[nodiscard]] TimeUnit choose_unit(std::span<const std::uint64_t> values, bool cycles);
// Three significant digits or more, without the unit: "0.12", "3.40", "56.7", "1,234".
[[nodiscard]] std::string in_unit(std::uint64_t value, const TimeUnit& unit);
// With the unit of its own: "12.3 µs".
[[nodiscard]] std::string duration_text(std::uint64_t value, bool cycles);
// The same of what may not be known: "-".
[[nodiscard]] std::string in_unit(std::optional<std::uint64_t> value, const TimeUnit& unit);
[[nodiscard]] std::string duration_text(std::optional<std::uint64_t> value, bool cycles);
[[nodiscard]] std::string percent_text(std::optional<std::uint64_t> share, std::uint64_t whole);
// In CSV, where nothing is written of what is not known.
[[nodiscard]] std::string csv_number(std::optional<std::uint64_t> value);
// "1,234,567".
[[nodiscard]] std::string grouped(std::uint64_t value);
// "12.3%"; "-" of nothing.
[[nodiscard]] std::string percent_text(std::uint64_t share, std::uint64_t whole);
// Seconds of the recording's clock, as trace-cmd prints them: "12.345678901"; plain cycles.
[[nodiscard]] std::string time_text(std::uint64_t ns, bool cycles);

}  // namespace trapline
