// TIME_SHIFT, which `trace-cmd record -A` writes into a guest's recording: converts counts of the
// guest's clock to counts of its host's clock, before either becomes nanoseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend_ftrace/base/bytes.h"

namespace trapline::trace_dat {

class TimeShift {
 public:
  // The host's count is count * scaling >> fraction, plus offset; `time` is the guest's count at
  // the measurement.
  struct Sample {
    std::uint64_t time = 0;
    std::int64_t offset = 0;
    std::uint64_t scaling = 1, fraction = 0;
  };

  // Parses what follows the peer's trace id: u32 flags, u32 CPUs; for each CPU u32 samples and as
  // many times, offsets and scalings of 64 bits; then, since trace-cmd 3.0, each CPU's fractions.
  // Returns nullopt if the option is cut off or a number is impossible.
  [[nodiscard]] static std::optional<TimeShift> parse(ByteCursor& option);

  // Converts a count of the guest's clock to the host's; a CPU without samples keeps its counts.
  [[nodiscard]] std::uint64_t operator()(std::uint32_t cpu, std::uint64_t count) const;

 private:
  [[nodiscard]] bool read_samples(ByteCursor& option, std::vector<Sample>& samples) const;

  bool interpolates_ = false;
  std::vector<std::vector<Sample>> cpus_;  // by CPU, in order of time
};

}  // namespace trapline::trace_dat
