#include "plugin/record_clock.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

namespace trapline {
namespace {

clockid_t id_of(ClockChoice choice) {
  if (choice == ClockChoice::kBoot) return CLOCK_BOOTTIME;
  return choice == ClockChoice::kReal ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

std::uint64_t read_kernel(clockid_t id) {
  timespec time{};
  ::clock_gettime(id, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

// Returns whether the counter is steady: the kernel watches it and stops using it if it is not.
bool counter_is_steady() {
  if (!host_counter::kExists) return false;
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string source;
  file >> source;
  return source == host_counter::kClocksource ||
         (host_counter::is_invariant() && source == "kvm-clock");
}

// Reads a clock and, in the middle of the reading, the ticks: the narrowest of several attempts.
void read_both(clockid_t id, std::uint64_t& ticks, std::uint64_t& ns) {
  std::uint64_t best = ~std::uint64_t{0};
  for (int i = 0; i < 5; ++i) {
    const std::uint64_t before = host_counter::read();
    const std::uint64_t time = read_kernel(id);
    const std::uint64_t after = host_counter::read();
    if (after - before >= best) continue;
    best = after - before;
    ticks = before + best / 2;
    ns = time;
  }
}

}  // namespace

void RecordClock::start(ClockChoice choice) {
  choice_ = choice;
  if (choice == ClockChoice::kTsc) {
    slope_ = std::uint64_t{1} << 32;
    fast_ = true;
    return;
  }
  if (!counter_is_steady()) return;
  read_both(id_of(choice), first_ticks_, first_ns_);
  const timespec pause{0, 10'000'000};
  ::nanosleep(&pause, nullptr);
  std::uint64_t ticks = 0, ns = 0;
  read_both(id_of(choice), ticks, ns);
  if (ticks <= first_ticks_ || ns <= first_ns_) return;
  slope_ = static_cast<std::uint64_t>((static_cast<Uint128>(ns - first_ns_) << 32) /
                                      (ticks - first_ticks_));
  base_ticks_ = ticks;
  base_ns_ = ns;
  fast_ = true;
}

void RecordClock::adjust() {
  if (!fast_ || choice_ == ClockChoice::kTsc) return;
  std::uint64_t ticks = 0, ns = 0;
  read_both(id_of(choice_), ticks, ns);
  constexpr std::uint64_t kMinimum = 50'000'000;  // ns since the last adjustment
  if (ticks <= base_ticks_ || ns < base_ns_ + kMinimum || ns <= first_ns_) return;
  const std::uint64_t ours =
      base_ns_ +
      static_cast<std::uint64_t>(static_cast<Uint128>(ticks - base_ticks_) * slope_ >> 32);
  // The new slope is the average since the start, corrected so that line and clock meet after as
  // long as since the last adjustment. The correction is at most a thousandth, so that a clock that
  // is set does not distort the times.
  const auto whole = static_cast<std::uint64_t>((static_cast<Uint128>(ns - first_ns_) << 32) /
                                                (ticks - first_ticks_));
  const auto error = static_cast<std::int64_t>(ns - ours);
  const double bend =
      std::clamp(static_cast<double>(error) / static_cast<double>(ns - base_ns_), -0.001, 0.001);
  base_ns_ = ours;
  base_ticks_ = ticks;
  slope_ = static_cast<std::uint64_t>(static_cast<double>(whole) * (1.0 + bend));
}

std::uint64_t RecordClock::read_clock() const {
  return choice_ == ClockChoice::kTsc ? host_counter::read() : read_kernel(id_of(choice_));
}

std::uint64_t RecordClock::slow_now() const { return read_kernel(id_of(choice_)); }

}  // namespace trapline
