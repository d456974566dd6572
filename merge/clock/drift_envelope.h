// Where the target's clock can be if its rate may change, within limits, at any time. Pure.
//
//   target │     ╲ hi ╱        A bound says something of all times before and after it: no clock
//   gets
//          │  ────╲──╱────     away from it faster than the greatest rate, or slower than the
//          least. │      ╱  ╲         The envelope is what all bounds leave. Where it is empty, two
//          of them │     ╱ lo ╲        contradict each other, whatever the clocks did in between.
//          └────────────── source
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "merge/clock/clock_map.h"
#include "merge/clock/feasible_lines.h"

namespace trapline::clocks {

class DriftEnvelope {
 public:
  // The bounds need a lower side and an upper one among them.
  DriftEnvelope(std::span<const ClockBound> bounds, RateWindow rates);

  struct Contradiction {
    ClockBound low, high;  // the lower side of the first is above the upper side of the second
    std::uint64_t by = 0;  // how far they miss each other, in the target's time
  };
  // The pair that is furthest apart; nothing where all agree.
  [[nodiscard]] const std::optional<Contradiction>& contradiction() const { return contradiction_; }

  [[nodiscard]] FeasibleLines::Range at(std::uint64_t source) const;
  // How far from the map's times the target's clock can be, at most, anywhere in [from, to].
  [[nodiscard]] long double distance(const ClockMap::Piece& map, std::uint64_t from,
                                     std::uint64_t to) const;

 private:
  // A source time at which there is a bound, what all bounds allow there, and which ones say so.
  struct Place {
    std::uint64_t source = 0;
    long double low = 0, high = 0;  // the target's time, less target_
    std::size_t low_of = 0, high_of = 0;
  };
  void sweep(const Place& before, Place& place, bool forward) const;

  RateWindow rates_;
  std::uint64_t target_ = 0;
  std::vector<Place> places_;
  std::optional<Contradiction> contradiction_;
};

}  // namespace trapline::clocks
