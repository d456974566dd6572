// Events that were lost: how often, and how many as far as that was told.
#pragma once

#include <cstdint>

#include "backend_ftrace/base/saturated_sum.h"

namespace trapline {

struct LossCounts {
  std::uint64_t lost_events = 0;  // the counted ones
  std::uint64_t gaps = 0;
  std::uint64_t gaps_uncounted = 0;  // of the gaps, those without a number

  // 0: it is not known how many.
  void add_gap(std::uint64_t events) { add({events, 1, events == 0 ? 1u : 0u}); }
  void add(const LossCounts& other) {
    lost_events = saturated_sum(lost_events, other.lost_events);
    gaps += other.gaps;
    gaps_uncounted += other.gaps_uncounted;
  }
};

}  // namespace trapline
