// Parses durations that a user gives, all by one rule: a number, with or without a fraction, and a
// unit.
//
//   duration = digits [ "." digits ] ( "ns" | "us" | "µs" | "ms" | "s" | "m" | "min" | "h" )
//
// A number without a unit is an error, since 5 could be 5 ms as well as 5 s. An option for which
// only seconds make sense (the length of a recording, as for sleep(1) and timeout(1)) accepts a
// bare number as seconds. 0 needs no unit. A value finer than a nanosecond is an error, never
// rounded.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend_ftrace/base/result.h"

namespace trapline {

inline constexpr std::uint64_t kSecond = 1'000'000'000;  // in ns

enum class BareNumber : std::uint8_t { kRefused, kSeconds };

// Returns nanoseconds. Errors (kUsage) begin with `option` and say what is accepted.
[[nodiscard]] Result<std::uint64_t> parse_duration(std::string_view option, std::string_view text,
                                                   BareNumber bare = BareNumber::kRefused);

}  // namespace trapline
