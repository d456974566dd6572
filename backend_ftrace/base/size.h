// Parses sizes that a user gives, all by one rule: a number and a unit, the same that messages
// print.
//
//   size = digits ( "K" | "M" | "G" )
//
// The units are powers of 1,024. A number without a unit is an error: 64 could be KiB as well as
// MiB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"

namespace trapline {

inline constexpr std::uint64_t kKib = 1024, kMib = 1024 * kKib;

// Returns bytes. Errors (kUsage) begin with `option` and say what is accepted.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view option, std::string_view text);
// Formats a size as "8M" or "65K": with the largest unit that divides it, at least K.
[[nodiscard]] std::string size_text(std::uint64_t bytes);

}  // namespace trapline
