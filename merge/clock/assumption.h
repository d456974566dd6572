// How far the rates of two clocks are assumed to change, and checks of this against sync records.
// docs/clocks.md, "What is assumed of a rate", gives the reasons for the figures.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/clock/sync_points.h"
#include "merge/clock/wander_envelope.h"

namespace trapline::clocks {

// The assumed change in ppm if no kernel adjusts one clock relative to the other: the effect of
// temperature on the oscillators.
inline constexpr double kSteadyPpm = 1;
// The assumed change in ppm if a kernel may adjust one clock and nothing shows whether it did.
inline constexpr double kSlewedPpm = 100;

// The greatest difference, in ppm, between the rates of two clocks that both count nanoseconds, on
// one machine or between a guest and its host.
inline constexpr double kApartPpm = 500;
inline constexpr RateWindow kNanoseconds{1 - kApartPpm * 1e-6, 1 + kApartPpm * 1e-6};
inline constexpr RateWindow kGuestNanoseconds{1 - 2 * kApartPpm * 1e-6, 1 + 2 * kApartPpm * 1e-6};

// The kernel's clocks in groups that run at one rate.
enum class Drive : std::uint8_t {
  kCounter,   // the hardware counter's: mono_raw, local, global, perf, x86-tsc
  kAdjusted,  // adjusted by adjtimex(2): mono, boot, tai, real
  kOther
};
[[nodiscard]] Drive drive_of(std::string_view clock);

// How a kernel was adjusting its clocks at a time of the source.
struct NotedAdjustment {
  std::uint64_t at = 0;
  std::optional<ClockAdjustment> adjustment;
};
[[nodiscard]] std::vector<NotedAdjustment> noted_in(std::span<const SyncEntry> entries);

// Returns how much the rates of two clocks are assumed to change, in ppm. `kernels`: the notes of
// the kernels that adjust either clock. If all kernels have notes, the result is how far the noted
// adjustments differ; an Error with the times if that is more than is assumed without notes.
// `given`: the user's own assumption, which is returned instead.
[[nodiscard]] Result<double> assumed_change(std::span<const std::vector<NotedAdjustment>> kernels,
                                            std::optional<double> given);

// Checks sync records for clocks that were set or suspended. Clocks that count the same time except
// for suspends (boot and mono) or settings (real and mono) must keep their distance; the Error
// gives the times between which one was suspended or set.
[[nodiscard]] Result<void> check_not_set(std::span<const SyncEntry> entries, ClockId from,
                                         ClockId to);

}  // namespace trapline::clocks
