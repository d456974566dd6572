// The wall clock (CLOCK_REALTIME) beside the timeline's: a line through two moments on both.
#pragma once

#include <cstdint>

#include "merge/model/event.h"

namespace trapline {

struct WallClock {
  std::uint64_t stamp = 0;  // on the timeline's clock
  std::uint64_t real = 0;   // nanoseconds since 1970, UTC
  double rate = 0;          // by how much the wall clock runs faster: 1e-6 gains 1 us in a second

  [[nodiscard]] std::uint64_t at(Timestamp time) const {
    const auto since = static_cast<std::int64_t>(time.ns() - stamp);
    const auto gained = static_cast<std::int64_t>(static_cast<double>(since) * rate);
    return real + static_cast<std::uint64_t>(since + gained);
  }
};

}  // namespace trapline
