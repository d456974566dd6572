// Counts gaps, in which events were lost, and the lost events as far as their number was reported.
#pragma once

#include <cstdint>

#include "backend_ftrace/base/saturated_sum.h"

namespace trapline {

struct LossCounts {
  std::uint64_t lost_events = 0;  // the sum over the gaps with a reported number
  std::uint64_t gaps = 0;
  std::uint64_t gaps_uncounted = 0;  // gaps without a reported number

  // Adds a gap; 0 events: their number is not known.
  void add_gap(std::uint64_t events) { add({events, 1, events == 0 ? 1u : 0u}); }
  void add(const LossCounts& other) {
    lost_events = saturated_sum(lost_events, other.lost_events);
    gaps += other.gaps;
    gaps_uncounted += other.gaps_uncounted;
  }
};

}  // namespace trapline
