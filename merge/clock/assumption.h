// What is assumed of how far the rates of two clocks change, and what sync records show of it.
// docs/clocks.md, "What is assumed of a rate", has the reasons for the figures.
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

// No kernel adjusts one beside the other: what temperature makes of oscillators is left.
inline constexpr double kSteadyPpm = 1;
// A kernel may adjust one, and nothing says whether it did.
inline constexpr double kSlewedPpm = 100;

// Rates of two clocks that both count nanoseconds, of one machine; of a guest and its host.
inline constexpr double kApartPpm = 500;
inline constexpr RateWindow kNanoseconds{1 - kApartPpm * 1e-6, 1 + kApartPpm * 1e-6};
inline constexpr RateWindow kGuestNanoseconds{1 - 2 * kApartPpm * 1e-6, 1 + 2 * kApartPpm * 1e-6};

// Which clocks of a kernel run at one rate.
enum class Drive : std::uint8_t {
  kCounter,   // the hardware's: mono_raw, local, global, perf, x86-tsc
  kAdjusted,  // what adjtimex(2) makes of it: mono, boot, tai, real
  kOther
};
[[nodiscard]] Drive drive_of(std::string_view clock);

// How a kernel adjusted its clocks at a time of the source.
struct NotedAdjustment {
  std::uint64_t at = 0;
  std::optional<ClockAdjustment> adjustment;
};
[[nodiscard]] std::vector<NotedAdjustment> noted_in(std::span<const SyncEntry> entries);

// By how much the rates of two clocks are assumed to change, in ppm. `kernels`: those that adjust
// one of the two. Where each of their notes tells, that is how far the adjustments were apart. An
// error, with the times, where that is more than is assumed without notes.
// `given`: the user's word.
[[nodiscard]] Result<double> assumed_change(std::span<const std::vector<NotedAdjustment>> kernels,
                                            std::optional<double> given);

// Nothing that sync records show excludes it: clocks that count the same time between suspends
// (boot and mono), or between settings (real and mono), kept their distance. Else an error with
// the times between which the one was suspended, the other set.
[[nodiscard]] Result<void> check_not_set(std::span<const SyncEntry> entries, ClockId from,
                                         ClockId to);

}  // namespace trapline::clocks
