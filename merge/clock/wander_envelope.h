// The range of times that the target's clock can have at each time of the source's, given the
// bounds and a rate that changes. Pure. docs/clocks.md, "The error between two sync records", has
// the derivation.
//
//   target │   ┬       ╱ ╲     ┬     Assumed: there is a rate r in the window of the two clocks so
//   less   │   ┼──────<   >────┼     that the target's rate, beside the source's, is never below r
//   line   │   ┴       ╲ ╱     ┴     nor above r + change. For one r each bound limits all times:
//          └────────────────── source  no clock gets away from it faster than r + change, or slower
//                                    than r. The envelope is the union over all r that the bounds
//   allow. Between two exact bounds that are T apart it is change · x · (T - x) / T high at x,
//   change · T / 4 in the middle; outside of all bounds it grows by the rates that are left.
//
// The rates r are an interval; it is cut into cells, each of which is taken with its lowest r and
// its highest r + change, so that the union is never too small, and too large by a few percent.
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

// A range of target times, or of rates.
struct Range {
  long double low;
  long double high;
  [[nodiscard]] long double middle() const { return low + (high - low) / 2; }
};

// An assumption on two clocks: the target's rate, in target per source, is in `rates`, and its
// greatest and least values differ by at most `change_ppm` of the rate.
struct Assumption {
  RateWindow rates = kAnyRate;
  double change_ppm = 0;
};

class WanderEnvelope {
 public:
  // Two bounds between which the target's clock ran at least, or at most, at this rate.
  struct Stretch {
    std::uint64_t first = 0, last = 0;  // source times
    long double rate = 0;
  };
  struct Contradiction {
    // A fast and a slow stretch whose rates differ by more than the assumption allows; one alone if
    // its rate is outside the assumed rates.
    std::optional<Stretch> fast, slow;
    std::optional<std::uint64_t> at_once;  // at this source time no target time fits all bounds
  };

  WanderEnvelope() = default;
  // The bounds must include a lower and an upper side. The envelope is empty, with a
  // contradiction(), if no rate fits all bounds.
  WanderEnvelope(std::span<const ClockBound> bounds, const Assumption& assumption);
  [[nodiscard]] const std::optional<Contradiction>& contradiction() const { return contradiction_; }

  [[nodiscard]] Range at(std::uint64_t source) const;
  // Returns the range from the slowest to the fastest rate that the target's clock can have had at
  // any time.
  [[nodiscard]] RateWindow rates() const { return {cells_.front().slow, cells_.back().fast}; }
  // Returns the rates of the lines "target = offset + rate · source" that fit all bounds; nullopt:
  // no line does.
  [[nodiscard]] std::optional<Range> line_rates() const;
  // Returns the range that the lines of these rates leave at `source`.
  [[nodiscard]] Range lines_at(const Range& rates, std::uint64_t source) const;
  // Returns the source times of the bounds that limit the envelope, in order.
  [[nodiscard]] std::vector<std::uint64_t> places() const;
  // Returns how far the target's clock can be from the map's times anywhere in [from, to], at most.
  [[nodiscard]] long double distance(const ClockMap::Piece& map, std::uint64_t from,
                                     std::uint64_t to) const;

 private:
  // A source time with a bound, and the range that the bound allows there; relative to the first
  // bound.
  struct Place {
    long double source = 0, low = 0, high = 0;
  };
  using Places = std::vector<Place>;
  // One side of a place, which a line can touch.
  struct Corner {
    long double source, target;
    [[nodiscard]] long double offset(long double rate) const { return target - rate * source; }
  };
  struct Cell {
    double slow, fast;
    Places places;  // their ranges are what all bounds together allow
    [[nodiscard]] Range at(long double source) const;
  };
  enum class Fit : std::uint8_t { kMeets, kTooSlow, kTooFast, kNever };
  Fit try_rate(long double rate, Contradiction& seen) const;
  void thin_out(long double slow, long double fast);
  void find_rates(const Assumption& assumption);
  [[nodiscard]] Corner touched(bool low, long double rate) const;
  void make_cells();

  std::uint64_t source_ = 0, target_ = 0;
  Places places_;
  long double change_ = 0;                 // how much the rate may change, in target per source
  long double slowest_ = 0, fastest_ = 0;  // the limits of the rates r that fit all bounds
  std::vector<Cell> cells_;
  std::optional<Contradiction> contradiction_;
};

// Returns the piece of a map that starts at `from` and runs through (source, target) at `rate`.
[[nodiscard]] ClockMap::Piece piece_of(std::uint64_t from, std::uint64_t source, long double target,
                                       long double rate);

}  // namespace trapline::clocks
