// Collects, in one pass over a recording, what it shows about its clock, about a guest that made
// it, and about guests that it saw run. Each recording is read at most once for this, and once more
// for the result.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "merge/clock/guest_bounds.h"
#include "merge/clock/guest_run_intervals.h"
#include "merge/clock/guest_syncs.h"
#include "merge/clock/relation.h"
#include "merge/clock/sync_points.h"
#include "merge/model/processes.h"
#include "merge/source/source.h"

namespace trapline {

// The times of a guest's records by the guest's CPU, for GuestRunIntervals. Times of an unknown CPU
// (kNoVcpu) only show when the recording was made.
using TimesByCpu = std::map<std::int32_t, std::vector<std::uint64_t>>;

// Keeps at most twice kMost times of each CPU, evenly distributed, including the first and the
// last.
class TimeSample {
 public:
  static constexpr std::size_t kMost = 65'536;
  void add(std::int32_t cpu, std::uint64_t time);
  [[nodiscard]] TimesByCpu take();

 private:
  struct Cpu {
    std::vector<std::uint64_t> times;
    std::uint64_t step = 1, seen = 0, last = 0;
  };
  std::map<std::int32_t, Cpu> cpus_;
};

// Finds which thread runs which vCPU, and the first and the last exit's time. The number comes from
// exits or, if they have none (arm64), from kvm_get_timer_map; else a single thread is vCPU 0.
class VcpuThreads {
 public:
  void on(const Event& event);
  [[nodiscard]] bool empty() const { return last_ == 0; }
  [[nodiscard]] std::uint64_t first() const { return first_; }  // the first exit
  [[nodiscard]] std::uint64_t last() const { return last_; }

  // Returns the threads that run vCPUs, in order of their ids.
  [[nodiscard]] std::vector<VcpuThread> all() const;
  // Returns the threads, by vCPU, of the virtual machine that has the threads `some` or, if `some`
  // is empty, of the only one. Nullopt if that is not exactly one machine.
  [[nodiscard]] std::optional<std::map<std::int32_t, ThreadId>> of_vm(
      const std::set<ThreadId>& some, const Processes& processes) const;

 private:
  std::map<ThreadId, std::int32_t> seen_;
  std::uint64_t first_ = 0, last_ = 0;
};

struct CollectedEvidence {
  std::vector<clocks::SyncEntry> syncs;      // sync records, with stamps on the recording's clock
  GuestSyncMarkers guest_markers;            // written by `trapline sync`, in a guest's recording
  std::optional<clocks::Interval> interval;  // the first and last time
  TimesByCpu times;                          // set if requested

  VcpuThreads vcpus;  // the vCPUs' threads of guests whose exits are in the recording
  RunLog runs;
  Processes processes;  // from task_newtask events
};

struct Collect {
  bool times = false;                     // collect times by the guest's CPU
  bool of_tasks = false;                  // of all events, only guest calls show the guest's CPU
  bool of_vcpus = false;                  // the guest's CPU is a guest call's vcpu, not its cpu
  bool runs = false;                      // collect when vCPUs ran
  std::vector<GuestBounds*> guests = {};  // they get every event
};

// Takes the events of one source. Damage only ends the events: those before it count.
class Collector {
 public:
  explicit Collector(Collect what) : what_(std::move(what)) {}
  void on(const Event& event);
  [[nodiscard]] CollectedEvidence take();

 private:
  Collect what_;
  CollectedEvidence evidence_;
  clocks::SyncGatherer syncs_;
  TimeSample times_;
};

}  // namespace trapline
