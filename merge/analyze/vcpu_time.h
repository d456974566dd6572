// What the thread of a vCPU did where the guest's code runs in QEMU itself (TCG): there are no VM
// exits, and the thread's own events tell.
//
//   record        W: a region's write     D: a device's event     R: a region's read    record
//     │  guest    ├───────── device ──────┤   guest  ├── device ──┤       guest           │
//
//   Off the CPU: runnable -> preempted; asleep -> blocked until it is woken, then preempted.
//
// QEMU traces a write before the device sees it and a read after the device answered, so the time
// of an access is that from W to the last D after it, or from the first D to R. A D between W and R
// may be of either: it proves nothing. Beside this least there is the most: all time that touches a
// W or a D, or ends in an R.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "merge/analyze/threads.h"
#include "merge/analyze/vmm/event_reader.h"
#include "merge/model/exit_span.h"

namespace trapline {

// A guest function's own time, or a part of it. Part::kUser is that in QEMU's devices, at least.
struct OwnTime {
  std::uint64_t guest_ns = 0;
  Parts parts{};
  std::uint64_t devices_at_most_ns = 0;
  std::uint32_t vmm_events = 0;
  NameId device = kNoName;     // the memory region that was accessed last
  NameId vmm_event = kNoName;  // the last event of a device, else of a region
  bool several_devices = false;
  bool cut = false;  // a part of it is not known: events were lost

  [[nodiscard]] std::uint64_t total() const {
    std::uint64_t sum = guest_ns;
    for (const std::uint64_t part : parts) sum += part;
    return sum;
  }
  void add(const OwnTime& other);
};

class VcpuTime {
 public:
  // Events of the thread, in order of time. The first one of all, and that after a loss, only tells
  // where the thread is from then on.
  void on_vmm_event(Timestamp at, const VmmEvent& event);
  void on(const ThreadChange& change);
  // Events from here on are lost.
  void on_loss(Timestamp at);

  // A record of the guest: the time since the last one.
  [[nodiscard]] OwnTime take(Timestamp at);
  // The same where nothing but the guest ran since then, as nearly always; else nothing, and the
  // record is still to be told.
  [[nodiscard]] std::optional<std::uint64_t> take_guest(Timestamp at) {
    if (!only_guest_) return std::nullopt;
    const std::uint64_t ns = elapsed(mark_, at);
    mark_ = std::max(mark_, at);
    return ns;
  }

 private:
  enum class State : std::uint8_t { kUnknown, kRuns, kRunnable, kAsleep };
  enum class Before : std::uint8_t { kRecord, kWrite, kDevice, kRead };
  // Adds the time up to `at` to the part that the thread is in.
  void account(Timestamp at);
  void runs(Timestamp at);
  // Ends the time since the last of QEMU's events or records.
  void end_piece(bool may_be_device);
  void end_access();

  State state_ = State::kUnknown;
  Before before_ = Before::kRecord;
  bool only_guest_ = false;       // no event came since the last record
  bool of_write_ = false;         // the access that is open began with its region's write
  Timestamp mark_;                // up to where the time is accounted
  std::uint64_t piece_ns_ = 0;    // on the CPU since the last of QEMU's events, or record
  std::uint64_t access_ns_ = 0;   // of the access that is open
  std::uint64_t devices_ns_ = 0;  // of those that ended
  OwnTime time_;
};

}  // namespace trapline
