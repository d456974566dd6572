// The counter of the host's processor that user space can read: the TSC on x86, the generic timer
// on arm64. On other processors records get the time of clock_gettime().
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace trapline::host_counter {

#if defined(__x86_64__)
inline constexpr bool kExists = true;
inline constexpr bool kIsTsc = true;
inline std::uint64_t read() { return __builtin_ia32_rdtsc(); }
// Returns whether the counter runs at one rate in all states of the processor.
inline bool is_invariant() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1U << 8) != 0;
}
#elif defined(__aarch64__)
inline constexpr bool kExists = true;
inline constexpr bool kIsTsc = false;
// Reads the counter without an ISB, so not ordered with the instructions around it: their time is
// less than a tick.
inline std::uint64_t read() {
  std::uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
}
inline bool is_invariant() { return true; }
#else
inline constexpr bool kExists = false;
inline constexpr bool kIsTsc = false;
inline std::uint64_t read() { return 0; }
inline bool is_invariant() { return false; }
#endif

// Linux's name for the clocksource that is this counter. Linux uses the clocksource as long as it
// is steady.
inline constexpr const char* kClocksource = kIsTsc ? "tsc" : "arch_sys_counter";

}  // namespace trapline::host_counter
