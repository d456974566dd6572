// One rule for every size that a user gives: a number and a unit, as messages print them.
//
//   size = digits ( "K" | "M" | "G" )
//
// The units are powers of 1,024. A number without one is refused: 64 could be KiB as well as MiB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"

namespace trapline {

inline constexpr std::uint64_t kKib = 1024, kMib = 1024 * kKib;

// Bytes. Errors (kUsage) begin with `option` and say what would be right.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view option, std::string_view text);
// "8M", "65K": the largest unit of which it is a whole number, K at least.
[[nodiscard]] std::string size_text(std::uint64_t bytes);

}  // namespace trapline
