// From the counts of a recording's clock to nanoseconds of the timeline.
#pragma once

#include <cstdint>

#include "merge/model/event.h"

namespace trapline::trace_dat {

class TimeScale {
 public:
  TimeScale() = default;
  // ns = count · mult >> shift + offset. A shift of 0 with mult 1 leaves counts as they are.
  TimeScale(std::uint64_t mult, std::uint32_t shift, std::int64_t offset)
      : mult_(mult), shift_(shift), offset_(offset), identity_(mult == 1 && shift == 0) {}
  // A TSC that ticks `khz` times per millisecond: 10^6 / khz nanoseconds each, in 32.32 fixed
  // point.
  static TimeScale from_khz(std::uint64_t khz, std::int64_t offset) {
    return {(std::uint64_t{1'000'000} << 32) / khz, 32, offset};
  }

  [[nodiscard]] Timestamp operator()(std::uint64_t count) const {
    if (!identity_) {
      __extension__ using Wide = unsigned __int128;
      count = static_cast<std::uint64_t>((Wide{count} * mult_) >> shift_);
    }
    return Timestamp(count + static_cast<std::uint64_t>(offset_));
  }

 private:
  std::uint64_t mult_ = 1;
  std::uint32_t shift_ = 0;
  std::int64_t offset_ = 0;
  bool identity_ = true;
};

}  // namespace trapline::trace_dat
