// One rule for every duration that a user gives: a number, which may have a fraction, and a unit.
//
//   duration = digits [ "." digits ] ( "ns" | "us" | "µs" | "ms" | "s" | "m" | "min" | "h" )
//
// A number without a unit is refused, since 5 could be 5 ms as well as 5 s; where nobody could take
// it for anything but seconds (how long a recording lasts, as sleep(1) and timeout(1) count), the
// option says so. 0 needs no unit. What is finer than a nanosecond is refused, never cut off.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend_ftrace/base/result.h"

namespace trapline {

inline constexpr std::uint64_t kSecond = 1'000'000'000;  // in ns

enum class BareNumber : std::uint8_t { kRefused, kSeconds };

// Nanoseconds. Errors (kUsage) begin with `option` and say what would be right.
[[nodiscard]] Result<std::uint64_t> parse_duration(std::string_view option, std::string_view text,
                                                   BareNumber bare = BareNumber::kRefused);

}  // namespace trapline
