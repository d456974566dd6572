// The clocks that user space can read and those that only ftrace has, by name.
//
// mono, mono_raw, boot and tai are the same in ftrace and in clock_gettime (to 0.4 us where we
// measured it); local, global, perf, uptime and counter cannot be read from user space and need
// sync records (sync.h).
#pragma once

#include <array>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string_view>

namespace trapline {

enum class ClockId : std::uint8_t {
  kMono,
  kMonoRaw,
  kBoot,
  kTai,
  kReal,
  kTsc,  // last of the readable clocks; sync records have them in this order
  kLocal,
  kGlobal,
  kPerf,
  kUptime,
  kCounter,  // last of the clocks that only ftrace has
};

inline constexpr std::size_t kReadableClocks = 6;
inline constexpr std::array<std::string_view, 11> kClockNames{
    "mono",  "mono_raw", "boot", "tai",    "real",   "tsc",
    "local", "global",   "perf", "uptime", "counter"};

[[nodiscard]] constexpr std::string_view clock_name(ClockId clock) {
  return kClockNames[static_cast<std::size_t>(clock)];
}

// Finds a clock by either of its names, "monotonic" and "mono" for example; also by "boottime" and
// "realtime". Returns nullopt for any other name, trace-cmd's "tsc2nsec" included.
[[nodiscard]] constexpr std::optional<ClockId> clock_from_name(std::string_view name) {
  if (name == "x86-tsc" || name == "x86_tsc") return ClockId::kTsc;
  if (name == "monotonic") return ClockId::kMono;
  if (name == "boottime") return ClockId::kBoot;
  if (name == "realtime") return ClockId::kReal;
  for (std::size_t i = 0; i < kClockNames.size(); ++i) {
    if (kClockNames[i] == name) return static_cast<ClockId>(i);
  }
  return std::nullopt;
}

// Returns the selected clock in the text of a trace_clock file: "local global [mono] boot" gives
// "mono".
[[nodiscard]] constexpr std::optional<std::string_view> selected_clock(std::string_view list) {
  const auto open = list.find('[');
  const auto close = list.find(']', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) return std::nullopt;
  return list.substr(open + 1, close - open - 1);
}

[[nodiscard]] constexpr bool is_readable(ClockId clock) {
  return static_cast<std::size_t>(clock) < kReadableClocks;
}

// The kernel's numbers of the clocks that read_clock() reads, in the order of ClockId.
inline constexpr clockid_t kClockIds[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME,
                                          CLOCK_TAI, CLOCK_REALTIME};

// Reads a clock in nanoseconds; the TSC in ticks. Returns 0 for a clock that this machine cannot
// read. Async-signal-safe.
[[nodiscard]] inline std::uint64_t read_clock(ClockId clock) {
#if defined(__x86_64__)
  // <x86intrin.h> takes half a second to compile.
  if (clock == ClockId::kTsc) return __builtin_ia32_rdtsc();
#endif
  if (clock > ClockId::kReal) return 0;
  timespec now{};
  if (::clock_gettime(kClockIds[static_cast<std::size_t>(clock)], &now) != 0) return 0;
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace trapline
