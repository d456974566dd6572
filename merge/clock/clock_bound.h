// A certain fact about two clocks: one moment, seen on both.
//
//   target                 A bound limits the relation from below in one place and from above in
//     │        ╷ at_most   another; for a stamp between two readings both places are the stamp. A
//     │        ↓           side that is not known is open.
//     │     ↑
//     │     ╵ at_least
//     └────────────── source
#pragma once

#include <cstdint>

namespace trapline {

struct ClockBound {
  static constexpr std::uint64_t kNoLow = 0;
  static constexpr std::uint64_t kNoHigh = ~std::uint64_t{0};

  std::uint64_t low_source = 0;     // when the source's clock read this,
  std::uint64_t at_least = kNoLow;  // the target's read no less than this
  std::uint64_t high_source = 0;
  std::uint64_t at_most = kNoHigh;
  // Bounds of one group were taken at almost the same time, so together they constrain a line at
  // one place only.
  std::uint64_t group = 0;

  [[nodiscard]] bool has_low() const { return at_least != kNoLow; }
  [[nodiscard]] bool has_high() const { return at_most != kNoHigh; }
  // Returns the source time of a bound whose sides are at one source time, or that has only one
  // side.
  [[nodiscard]] std::uint64_t source() const { return has_low() ? low_source : high_source; }
  friend bool operator==(const ClockBound&, const ClockBound&) = default;

  // Clocks count in grains and round down: a clock that reads t is anywhere in [t, t + grain).
  static constexpr std::uint64_t kGrain = 1;

  // Returns the bound widened by the rounding of its readings.
  [[nodiscard]] ClockBound with_grains() const {
    ClockBound wide = *this;
    if (has_low()) wide.low_source += kGrain;
    if (has_high()) wide.at_most += kGrain;
    return wide;
  }
  // Makes the bound that the target's clock was between `low` and `high` when the source's read
  // `source`, without widening it for rounding.
  [[nodiscard]] static ClockBound at(std::uint64_t source, std::uint64_t low, std::uint64_t high,
                                     std::uint64_t group = 0) {
    return {source, low, source, high, group};
  }
  // Makes the bound of an action before and after which both clocks were read. A stamp is both
  // readings of its clock.
  [[nodiscard]] static ClockBound readings(std::uint64_t source_before, std::uint64_t source_after,
                                           std::uint64_t target_before, std::uint64_t target_after,
                                           std::uint64_t group = 0) {
    return {source_after + kGrain, target_before, source_before, target_after + kGrain, group};
  }
};

}  // namespace trapline
