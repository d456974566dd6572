// Every line "target = offset + rate · source" that meets all brackets and whose rate is possible.
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
#include "merge/clock/clock_map.h"

namespace trapline::clocks {

inline constexpr std::uint64_t kLastTime = ~std::uint64_t{0} >> 1;
[[nodiscard]] constexpr std::uint64_t clamped_time(long double value) {
  if (value <= 0) return 0;
  return value >= static_cast<long double>(kLastTime) ? kLastTime
                                                      : static_cast<std::uint64_t>(value);
}

// Rates, in target per source, that two clocks can have.
struct RateWindow {
  double least;
  double most;
};
// Counters of 1 MHz to 100 GHz beside a clock of nanoseconds, either way round.
inline constexpr RateWindow kAnyRate{1e-3, 1e3};

class FeasibleLines {
 public:
  struct Range {
    long double low;
    long double high;
    [[nodiscard]] long double middle() const { return low + (high - low) / 2; }
  };

  // Nothing when no line meets all; when no bracket bounds one of the sides; and for no brackets.
  [[nodiscard]] static std::optional<FeasibleLines> of(std::span<const ClockBound> brackets,
                                                       RateWindow rates);

  // Where the target's clock can be when the source's reads this.
  [[nodiscard]] Range at(std::uint64_t source) const;
  [[nodiscard]] Range rates() const;

 private:
  struct Corner {
    long double rate, offset;
  };
  std::uint64_t source_ = 0;  // corners are relative to this point
  std::uint64_t target_ = 0;
  std::vector<Corner> corners_;
};

// The piece of a map that starts at `from` and runs at `rate` through (source, target).
[[nodiscard]] ClockMap::Piece piece_of(std::uint64_t from, std::uint64_t source, long double target,
                                       long double rate);

}  // namespace trapline::clocks
