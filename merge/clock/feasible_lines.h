// All lines "target = offset + rate · source" that fit all brackets and have a possible rate.
//
//   target │        ╱ ╱        The lines form a convex polygon in the plane of (rate, offset); its
//          │   ╷  ╱ ╱╷ at_most corners are lines that touch two brackets, or one at the fastest or
//          │   ↓╱ ╱  ↓         slowest rate. At any source time the band reaches from the lowest to
//          │  ╱ ╱              the highest corner line: no bracket allows more, none less.
//          │╱ ╱ ↑ at_least
//          └────────── source
//
// Made from the convex hulls of the bounds: n log n for n brackets, and exact but for the rounding
// of long double (64 bits of mantissa or more where the tool runs), far below a nanosecond.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "merge/clock/clock_bound.h"
#include "merge/model/clock_map.h"

namespace trapline::clocks {

inline constexpr std::uint64_t kLastTime = ~std::uint64_t{0} >> 1;
[[nodiscard]] constexpr std::uint64_t clamped_time(long double value) {
  if (value <= 0) return 0;
  return value >= static_cast<long double>(kLastTime) ? kLastTime
                                                      : static_cast<std::uint64_t>(value);
}

// The range of rates, in target per source, that two clocks can have.
struct RateWindow {
  double least;
  double most;
};
// Fits counters of 1 MHz to 100 GHz relative to a clock of nanoseconds, and the reverse.
inline constexpr RateWindow kAnyRate{1e-3, 1e3};

class FeasibleLines {
 public:
  struct Range {
    long double low;
    long double high;
    [[nodiscard]] long double middle() const { return low + (high - low) / 2; }
  };

  // Returns nullopt if no line fits all brackets, if no bracket bounds one of the sides, or without
  // brackets.
  [[nodiscard]] static std::optional<FeasibleLines> of(std::span<const ClockBound> brackets,
                                                       RateWindow rates);

  // Returns the range in which the target's clock can be when the source's clock reads `source`.
  [[nodiscard]] Range at(std::uint64_t source) const;
  [[nodiscard]] Range rates() const;

 private:
  struct Corner {
    long double rate, offset;
  };
  std::uint64_t source_ = 0;  // corners are relative to this source time
  std::uint64_t target_ = 0;
  std::vector<Corner> corners_;
};

// Returns the piece of a map that starts at `from` and runs through (source, target) at `rate`.
[[nodiscard]] ClockMap::Piece piece_of(std::uint64_t from, std::uint64_t source, long double target,
                                       long double rate);

}  // namespace trapline::clocks
