// The time that records carry. Where the processor's counter is steady it is read directly (the
// TSC: 11 ns instead of 20) and turned into the chosen clock's nanoseconds by a line that is fitted
// again and again: adjust() compares it with the clock and bends the slope so that the two meet.
// Times never go back, because the line is bent, not moved.
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
  // Measures the counter against the clock for some milliseconds. kTsc: where there is a TSC.
  void start(ClockChoice choice);

  [[nodiscard]] std::uint64_t now() const { return fast_ ? counter_now() : slow_now(); }
  // Hot: where uses_counter().
  [[nodiscard]] std::uint64_t counter_now() const {
    const std::uint64_t ticks = host_counter::read() - base_ticks_;
    return base_ns_ + static_cast<std::uint64_t>(static_cast<Uint128>(ticks) * slope_ >> 32);
  }
  // For the clock's own vCPU only, now and then (each buffer flush): costs two clock readings.
  void adjust();

  [[nodiscard]] bool uses_counter() const { return fast_; }
  // The chosen clock, from the kernel.
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
