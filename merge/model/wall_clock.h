// Converts times of the timeline to the wall clock (CLOCK_REALTIME), by a line through two moments
// that are known on both.
#pragma once

#include <cstdint>

#include "merge/model/timestamp.h"

namespace trapline {

struct WallClock {
  std::uint64_t stamp = 0;  // a time on the timeline's clock
  std::uint64_t real = 0;   // the wall clock at `stamp`, in nanoseconds since 1970, UTC
  double rate = 0;          // how much faster the wall clock runs: 1e-6 gains 1 us per second

  [[nodiscard]] std::uint64_t at(Timestamp time) const {
    const auto since = static_cast<std::int64_t>(time.ns() - stamp);
    const auto gained = static_cast<std::int64_t>(static_cast<double>(since) * rate);
    return real + static_cast<std::uint64_t>(since + gained);
  }
};

// A point in time that a user gives: on the recording's clock, or relative to its first event.
struct TimeSpec {
  std::uint64_t ns = 0;
  bool relative = false;  // "+500ms"
  [[nodiscard]] Timestamp resolve(Timestamp first) const {
    return Timestamp(relative ? first.ns() + ns : ns);
  }
};

}  // namespace trapline
