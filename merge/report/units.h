// Formats numbers for people: durations in a suitable unit, thousands separated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trapline {

// Formats a duration in three significant digits with a unit: "434 ns", "12.3 µs", "1.85 s"; in
// more digits if the duration exceeds 999 s. Returns "-" for nullopt.
[[nodiscard]] std::string duration_text(std::optional<std::uint64_t> value, bool cycles);
[[nodiscard]] std::string grouped(std::uint64_t value);
// Returns "12.3%"; "<0.1%" for a share that would be shown as none; "-" if `whole` is 0 or the
// share is not known.
[[nodiscard]] std::string percent_text(std::optional<std::uint64_t> share, std::uint64_t whole);
// Formats a change: "+12.3%", "x12.3", "new" if it is infinite, "gone" for -100%.
[[nodiscard]] std::string percent_change_text(double change);
// Formats a time in seconds as trace-cmd does: "12.345678901"; cycles as they are.
[[nodiscard]] std::string time_text(std::uint64_t ns, bool cycles);

// Returns the number of terminal columns of a UTF-8 text whose characters take one each.
[[nodiscard]] std::size_t text_width(std::string_view text);

}  // namespace trapline
