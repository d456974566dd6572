// The clocks that perf can be asked for, by the kernel's numbers.
#pragma once

#include <array>
#include <cstdint>
#include <ctime>
#include <string_view>

namespace trapline {

struct PerfClock {
  std::string_view name;  // as trace_clock has it, but for "real"
  std::int32_t id;
};
inline constexpr std::array<PerfClock, 5> kPerfClocks = {{{"real", CLOCK_REALTIME},
                                                          {"mono", CLOCK_MONOTONIC},
                                                          {"mono_raw", CLOCK_MONOTONIC_RAW},
                                                          {"boot", CLOCK_BOOTTIME},
                                                          {"tai", CLOCK_TAI}}};

}  // namespace trapline
