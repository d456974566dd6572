#pragma once

#include <compare>
#include <cstdint>

namespace trapline {

// A point on the timeline, in nanoseconds of the timeline's clock (in cycles if a report says so).
// Only sources and the clock converter make one from a number.
class Timestamp {
 public:
  constexpr Timestamp() = default;
  constexpr explicit Timestamp(std::uint64_t ns) : ns_(ns) {}
  [[nodiscard]] constexpr std::uint64_t ns() const { return ns_; }
  friend constexpr auto operator<=>(Timestamp, Timestamp) = default;
  // Returns the time from `earlier` to `later`; 0 if a damaged clock ran backwards.
  friend constexpr std::uint64_t elapsed(Timestamp earlier, Timestamp later) {
    return later.ns_ > earlier.ns_ ? later.ns_ - earlier.ns_ : 0;
  }

 private:
  std::uint64_t ns_ = 0;
};

}  // namespace trapline
