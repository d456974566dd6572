// What one pass over a recording tells of its clock, of a guest that made it, and of guests that it
// saw run. Each recording is read for it at most once, and once more for the result.
#pragma once

#include <functional>
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

// The guest's times, by the guest's CPU: what GuestRunIntervals looks at. Those of no known CPU
// (kNoVcpu) only tell when the recording was made.
using TimesByCpu = std::map<std::int32_t, std::vector<std::uint64_t>>;

// Keeps at most twice kMost times of each CPU, evenly, the first and the last among them.
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

// Which thread is which vCPU, and when they ran. Where the exits do not say which (arm64), the
// timers do; where nothing does and there is one, it is vCPU 0.
class VcpuThreads {
 public:
  void on(const Event& event);
  [[nodiscard]] bool empty() const { return last_ == 0; }
  [[nodiscard]] std::uint64_t first() const { return first_; }  // exit
  [[nodiscard]] std::uint64_t last() const { return last_; }

  // In order of their threads.
  [[nodiscard]] std::vector<VcpuThread> all() const;
  // The threads of the virtual machine that these belong to; without any, those of the only one.
  // Nothing where there are several, or these belong to several.
  [[nodiscard]] std::optional<std::map<std::int32_t, ThreadId>> of_vm(
      const std::set<ThreadId>& some, const Processes& processes) const;

 private:
  std::map<ThreadId, std::int32_t> seen_;
  std::uint64_t first_ = 0, last_ = 0;
};

struct CollectedEvidence {
  std::vector<clocks::SyncEntry> syncs;      // its sync records: stamps are on its clock
  GuestSyncMarkers guest_markers;            // of `trapline sync` where a guest made the recording
  std::optional<clocks::Interval> interval;  // its times
  TimesByCpu times;                          // where they were asked for

  VcpuThreads vcpus;  // of guests that it saw run
  RunLog runs;
  Processes processes;  // of task_newtask events
};

struct Collect {
  bool times = false;                       // by the guest's CPU
  bool of_tasks = false;                    // calls say which CPU made them, events do not
  bool runs = false;                        // when vCPUs ran
  std::vector<GuestBounds*> guests;         // are shown every event
  std::function<void(const Event&)> visit;  // is shown every event, too; may be empty
};
// Reads the source to its end. Damage ends the reading, not the answer: what came before holds.
[[nodiscard]] CollectedEvidence collect(Source& source, const Collect& what);

}  // namespace trapline
