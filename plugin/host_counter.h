// The counter of the processor that QEMU runs on, which user space may read: the TSC of x86, the
// generic timer's of arm64. Where there is none, records are stamped by clock_gettime().
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
// Runs at one rate in all of the processor's states.
inline bool is_invariant() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1U << 8) != 0;
}
#elif defined(__aarch64__)
inline constexpr bool kExists = true;
inline constexpr bool kIsTsc = false;
// Not ordered with what is around it (no ISB): some instructions' time is less than a tick.
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

// What Linux calls the clocksource that is this counter; it keeps to it while it is steady.
inline constexpr const char* kClocksource = kIsTsc ? "tsc" : "arch_sys_counter";

}  // namespace trapline::host_counter
