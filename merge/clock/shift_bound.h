// Bounds the error of a guest's recording whose times trace-cmd moved to its host's clock
// (TIME_SHIFT). Pure; processes a stream with bounded state for each vCPU.
//
//   host    entry ────────── exit        entry ────── exit       a guest runs in between
//   guest     │  │ │      │  │              │       │            its own events lie there
//             └──┘        └──┘
//             may be earlier, may be later: over all runs, by the least of these
//
// An event outside its vCPU's runs shows that the shift is off by at least the event's distance to
// the nearest run.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "merge/model/event.h"

namespace trapline {

class ShiftBound {
 public:
  // `vcpus`: the thread of each of the guest's CPUs.
  explicit ShiftBound(std::map<std::int32_t, ThreadId> vcpus) : vcpus_(std::move(vcpus)) {}

  // Take events in order of time, on the host's clock.
  void on_host(const Event& event);
  void on_guest(const Event& event);

  struct Found {
    std::uint64_t events = 0, runs = 0;  // events inside runs, and the number of these runs
    // Events outside runs, and the distance of the farthest one from the nearest run, in ns.
    std::uint64_t outside = 0, off_ns = 0;
    Timestamp farthest, exit, entry;  // the farthest event, and the exit that it is in
    // The range of further shifts, in ns, with which the events inside runs would stay inside.
    std::int64_t least = std::numeric_limits<std::int64_t>::min();
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
  };
  // Returns what the events show about the shift; call it after the last event. Nullopt if no event
  // of the guest came while it was known whether the event's vCPU ran.
  [[nodiscard]] std::optional<Found> found() const;

 private:
  // Limit for the stored events of one exit; further ones are not counted.
  static constexpr std::size_t kMostOutside = 4096;

  struct Vcpu {
    enum class Where : std::uint8_t { kUnknown, kGuest, kHost };
    Where where = Where::kUnknown;
    Timestamp since;
    // The guest's events since the last exit or entry; while in the guest, only the first and the
    // last.
    std::vector<Timestamp> events;
  };
  void ran(const Vcpu& vcpu, std::optional<Timestamp> until);
  void was_out(const Vcpu& vcpu, Timestamp until);

  std::map<std::int32_t, ThreadId> vcpus_;
  std::map<ThreadId, Vcpu> threads_;
  Found found_;
};

}  // namespace trapline
