// Sums of counts that a file gives, which are any numbers: a sum that has no room is the largest
// there is, never a small one that looks right.
#pragma once

#include <cstdint>
#include <limits>

namespace trapline {

[[nodiscard]] constexpr std::uint64_t saturated_sum(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  return a > kMost - b ? kMost : a + b;
}

}  // namespace trapline
