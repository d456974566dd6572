// Bounds between the clock that stamps a guest and the clock of its host's recording, from guest
// sync records (docs/formats/sync.md). Pure: derives what must be true from what both sides saw.
//
//   source clock   before ──── action ──── after        (stamps of the plugin, or of the guest)
//                     │           │           │
//   recording         │  kvm_exit │ kvm_entry │          before ≤ kvm_exit, kvm_entry ≤ after
//                     │   marker  │           │          before ≤ its stamp ≤ after
//
// So each action bounds the relation from both sides. Where one action ends and the next begins,
// the two bounds meet in one moment. The value of a write identifies its exit, whatever else the
// guest writes to the same address. A value that two exits of the recording have identifies none.
//
// A recording on the host's TSC needs no exit if it contains kvm_write_tsc_offset: the guest's
// readings of its TSC minus the offset are the host's TSC. This is true only for the guest that has
// the offset. A plugin's stamps may come from any machine that its QEMU runs, so only series with
// an exit in the recording count, and only offsets of that virtual machine's threads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backend_ftrace/guest_sync.h"
#include "merge/clock/clock_bound.h"
#include "merge/model/event.h"

namespace trapline {

struct GuestSyncCounters {
  std::uint64_t exits = 0;     // writes for which the recording has an exit
  std::uint64_t markers = 0;   // markers that the recording stamped
  std::uint64_t readings = 0;  // readings of the recording's own clock
  std::uint64_t tsc = 0;       // readings of the TSC, if its offset was recorded
  std::uint64_t ptp = 0;       // moments on the host's wall clock
};

class GuestBounds {
 public:
  // `target`: the recording's clock, if a guest can read it too.
  explicit GuestBounds(std::optional<ClockId> target) : target_(target) {}

  // Adds records of the source in its order, kMaxRecords at most: a record ends the action that the
  // record before began, and may begin the next one. `before` and `after` are its readings on the
  // source's clock, not later and not earlier than the moment of the reading; 0: none. `by_stamp`:
  // both are the plugin's stamp (sync.txt); other records are the output of `trapline sync`.
  void add(const GuestSyncRecord& record, std::uint64_t before, std::uint64_t after, bool by_stamp);

  // Take the recording's events in order of time, after all records of the source.
  void on_exit(ThreadId thread, std::uint64_t at);
  void on_write(ThreadId thread, bool mmio, std::uint64_t where, std::uint64_t value);
  void on_entry(ThreadId thread, std::uint64_t at);
  void on_marker(std::uint64_t at, std::string_view text);
  // Notes that the TSC of the thread's vCPU is the host's TSC plus `offset`.
  void on_tsc_offset(ThreadId thread, std::uint64_t offset);
  // Passes an event of a timeline to the function above that takes events of its kind.
  void on_event(const Event& event);

  // Returns the threads whose exits match the source's writes: the guest's vCPUs. Empty if the
  // recording has none.
  [[nodiscard]] const std::set<ThreadId>& threads() const { return threads_; }
  // Restricts the TSC offsets to those of these threads, which belong to the guest's virtual
  // machine.
  void take_threads(std::set<ThreadId> threads) { vm_threads_ = std::move(threads); }

  // Returns all bounds by source time; empty if source and recording have nothing in common.
  [[nodiscard]] std::vector<ClockBound> bounds();
  [[nodiscard]] const GuestSyncCounters& counters() const { return counters_; }
  // Returns the bounds to the host's TSC, for relations through the TSC; empty if the offset is not
  // known.
  [[nodiscard]] std::vector<ClockBound> host_tsc_bounds();
  // Returns the bounds to the host's CLOCK_REALTIME, from PTP_KVM. A PTP reading is one moment on
  // two clocks. It narrows the readings of a series, because the distance between the guest's wall
  // clock and the source's clock is the same in all of them.
  [[nodiscard]] std::vector<ClockBound> host_real_bounds();
  // Returns whether the recording contains texts of the source's series. If so, the machine that
  // executed the no-ops made the recording, not that machine's host.
  [[nodiscard]] bool made_by_the_guest() const { return !own_series_.empty(); }

  static constexpr std::size_t kMaxRecords = 65'536;

 private:
  struct Action {
    GuestSyncRecord record;  // the record that began the action
    GuestReading reading_after;
    std::uint64_t before = 0, after = 0;  // on the source's clock
    bool by_stamp = false;
    // Times in the recording: of kvm_exit and of kvm_entry, or both the marker's time.
    std::uint64_t first = 0, last = 0;
    bool twice = false;
  };
  struct Vcpu {
    std::uint64_t exit = 0;
    std::size_t action = kNone;
    bool entered = false;  // the vCPU has run
  };
  static constexpr std::size_t kNone = ~std::size_t{0};

  [[nodiscard]] static bool by_the_readings(const Action& action);
  void saw(Action& action, std::uint64_t first, std::uint64_t last);
  [[nodiscard]] bool is_of_the_guest(const Action& action) const;
  [[nodiscard]] std::optional<std::uint64_t> tsc_offset() const;

  std::optional<ClockId> target_;
  std::size_t records_ = 0;
  std::optional<GuestSyncRecord> open_;
  std::uint64_t open_before_ = 0;
  std::vector<Action> actions_;
  // The actions by MMIO or port, address and value, and by series and index.
  std::map<std::tuple<bool, std::uint64_t, std::uint64_t>, std::size_t> by_write_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> by_index_;
  std::unordered_set<std::uint32_t> own_series_;
  std::unordered_map<std::int32_t, Vcpu> vcpus_;
  std::unordered_set<std::uint32_t> exited_series_;
  std::set<ThreadId> threads_;
  std::optional<std::set<ThreadId>> vm_threads_;
  struct TscOffset {
    std::uint64_t offset = 0;
    bool changed = false;  // the offset changed while the vCPU ran
  };
  std::map<ThreadId, TscOffset> tsc_offsets_;
  GuestSyncCounters counters_;
};

}  // namespace trapline
