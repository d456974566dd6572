// Numbers for people: durations in a unit that suits them, thousands apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trapline {

// Three significant digits in a unit of its own: "434 ns", "12.3 µs", "1.85 s"; more of what is
// longer than 999 s; "-" of what is not known.
[[nodiscard]] std::string duration_text(std::optional<std::uint64_t> value, bool cycles);
// "1,234,567".
[[nodiscard]] std::string grouped(std::uint64_t value);
// "12.3%"; "<0.1%" of what would read as none; "-" of nothing, and of what is not known.
[[nodiscard]] std::string percent_text(std::optional<std::uint64_t> share, std::uint64_t whole);
// By how much something changed: "+12.3%", "x12.3", "new" where it is infinite, "gone" of all.
[[nodiscard]] std::string percent_change_text(double change);
// Seconds of the recording's clock, as trace-cmd prints them: "12.345678901"; plain cycles.
[[nodiscard]] std::string time_text(std::uint64_t ns, bool cycles);

// Columns that the text takes, for UTF-8 whose characters take one each.
[[nodiscard]] std::size_t text_width(std::string_view text);

}  // namespace trapline
