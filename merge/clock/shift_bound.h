// How far the times of a guest's recording may be off that trace-cmd moved onto its host's clock
// (TIME_SHIFT). Pure; a stream with bounded state for each vCPU.
//
//   host    entry ────────── exit        entry ────── exit       a guest runs in between
//   guest     │  │ │      │  │              │       │            its own events lie there
//             └──┘        └──┘
//             may be earlier, may be later: over all runs, by the least of these
//
// An event outside of its vCPU's runs shows that the shift is off by at least its distance to one.
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
  // The thread of each of the guest's CPUs.
  explicit ShiftBound(std::map<std::int32_t, ThreadId> vcpus) : vcpus_(std::move(vcpus)) {}

  // Both in order of time, on the host's clock.
  void on_host(const Event& event);
  void on_guest(const Event& event);

  struct Found {
    std::uint64_t events = 0, runs = 0;     // events inside, and the runs that they lie in
    std::uint64_t outside = 0, off_ns = 0;  // events outside, and the farthest one's distance
    Timestamp farthest, exit, entry;        // that one, and the exit that it lies in
    // All would still be inside if they were moved by so much.
    std::int64_t least = std::numeric_limits<std::int64_t>::min();
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
  };
  // After the last event; nothing where no event was seen beside runs.
  [[nodiscard]] std::optional<Found> found() const;

 private:
  // More events of one exit are not kept, since the first and the last of them lie nearest to runs.
  static constexpr std::size_t kMostOutside = 4096;

  struct Vcpu {
    enum class Where : std::uint8_t { kUnknown, kGuest, kHost };
    Where where = Where::kUnknown;
    Timestamp since;
    std::vector<Timestamp> events;  // since then; in the guest, the first and the last
  };
  void ran(const Vcpu& vcpu, std::optional<Timestamp> until);
  void was_out(const Vcpu& vcpu, Timestamp until);

  std::map<std::int32_t, ThreadId> vcpus_;
  std::map<ThreadId, Vcpu> threads_;
  Found found_;
};

}  // namespace trapline
