// Adds counts that come from a file and may have any value. A sum that overflows is the largest
// number of its type, never a small one that looks right.
#pragma once

#include <cstdint>
#include <limits>

namespace trapline {

[[nodiscard]] constexpr std::uint64_t saturated_sum(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  return a > kMost - b ? kMost : a + b;
}

}  // namespace trapline
