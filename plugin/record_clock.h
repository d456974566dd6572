// The clock of the records. If the processor's counter is steady, it is read directly (the TSC: 11
// ns instead of 20) and converted to the chosen clock's nanoseconds by a line. adjust() compares
// the line with the clock and changes its slope so that the two meet. Times never go back, because
// only the slope changes: the line does not jump.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

#include "plugin/host_counter.h"

namespace trapline {

__extension__ using Uint128 = unsigned __int128;

enum class ClockChoice : std::uint8_t { kMono, kBoot, kReal, kTsc };

class RecordClock {
 public:
  // Measures the counter against the clock for some milliseconds. kTsc needs a processor with a
  // TSC.
  void start(ClockChoice choice);

  [[nodiscard]] std::uint64_t now() const { return fast_ ? counter_now() : slow_now(); }
  // Hot. Call it only if uses_counter().
  [[nodiscard]] std::uint64_t counter_now() const {
    const std::uint64_t ticks = host_counter::read() - base_ticks_;
    return base_ns_ + static_cast<std::uint64_t>(static_cast<Uint128>(ticks) * slope_ >> 32);
  }
  // Corrects the slope. Only the clock's own vCPU calls it, at each buffer flush; it costs two
  // clock readings.
  void adjust();

  [[nodiscard]] bool uses_counter() const { return fast_; }
  // Reads the chosen clock from the kernel.
  [[nodiscard]] std::uint64_t read_clock() const;

 private:
  [[nodiscard]] std::uint64_t slow_now() const;

  std::uint64_t base_ticks_ = 0;
  std::uint64_t base_ns_ = 0;
  std::uint64_t slope_ = 0;  // ns per tick, 32 fraction bits; 1 << 32 for clock=tsc
  std::uint64_t first_ticks_ = 0;
  std::uint64_t first_ns_ = 0;
  ClockChoice choice_ = ClockChoice::kMono;
  bool fast_ = false;
};

}  // namespace trapline
