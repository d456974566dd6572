// Divides the time of a vCPU's thread if the guest's code runs in QEMU itself (TCG): there are no
// VM exits, so the thread's own events are used.
//
//   record        W: a region's write     D: a device's event     R: a region's read    record
//     │  guest    ├───────── device ──────┤   guest  ├── device ──┤       guest           │
//
//   Off the CPU: runnable -> preempted; asleep -> blocked until it is woken, then preempted.
//
// QEMU traces a write before the device gets it and a read after the device has answered. So an
// access lasts from W to the last D after it, or from the first D to R. A D between W and R may
// belong to either, so it proves nothing. These accesses are the least time of devices; the most is
// all time next to a W or a D, and all time that ends with an R.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "merge/analyze/threads.h"
#include "merge/analyze/vmm/event_reader.h"
#include "merge/model/exit_span.h"

namespace trapline {

// A guest function's own time, or a part of it. Part::kUser is the least time in QEMU's devices.
struct OwnTime : GuestTime {
  std::uint64_t devices_at_most_ns = 0;
  std::uint32_t vmm_events = 0;
  NameId device = kNoName;     // the last memory region that was accessed
  NameId vmm_event = kNoName;  // the last event of a device, else of a region
  bool several_devices = false;
  bool cut = false;  // part of the time is not known: events were lost

  void add(const OwnTime& other);
};

class VcpuTime {
 public:
  // Take events of the thread in order of time. The first one, and the first after a loss, only
  // shows where the thread is from then on.
  void on_vmm_event(Timestamp at, const VmmEvent& event);
  void on(const ThreadChange& change);
  // Ends the known time at `at`, after which events were lost.
  void on_loss(Timestamp at);

  // Takes a record of the guest. Returns the time since the last one.
  [[nodiscard]] OwnTime take(Timestamp at);
  // Does what take() does if only the guest ran since the last record, which is nearly always so.
  // Otherwise returns nullopt, and take() must be called.
  [[nodiscard]] std::optional<std::uint64_t> take_guest(Timestamp at) {
    if (!only_guest_) return std::nullopt;
    const std::uint64_t ns = elapsed(mark_, at);
    mark_ = std::max(mark_, at);
    return ns;
  }

 private:
  enum class Before : std::uint8_t { kRecord, kWrite, kDevice, kRead };
  // Adds the time up to `at` to the current part.
  void account(Timestamp at);
  void runs(Timestamp at);
  // Ends the time since the last record or event of QEMU. `may_be_device`: a device of QEMU may
  // have used that time.
  void end_piece(bool may_be_device);
  void end_access();

  RunState state_ = RunState::kUnknown;
  Before before_ = Before::kRecord;
  bool only_guest_ = false;       // no event came since the last record
  bool of_write_ = false;         // the open access began with its region's write
  Timestamp mark_;                // the time is accounted up to here
  std::uint64_t piece_ns_ = 0;    // on the CPU since QEMU's last event or the last record
  std::uint64_t access_ns_ = 0;   // time of the open access
  std::uint64_t devices_ns_ = 0;  // time of the accesses that ended
  OwnTime time_;
};

}  // namespace trapline
