// Relates a guest's recording, beside which there are guest sync records, to its host's: what the
// plugin recorded outside of the guest, or what uftrace or trace-cmd recorded inside. Reads both;
// the rules are guest_bounds.h, guest_syncs.h, clock_line.h and guest_run_intervals.h.
//
//   sync records ─┐
//                 ├→ GuestBounds ─→ ClockLine ─→ places the guest's records ─→ GuestRunIntervals ─→
//                 ClockLine again
//   recording ────┘   (pass 1)                                    (pass 2)     checks, refines
//
// Evidence that contradict what is known already (a PTP clock that is not the host's, a TSC that is
// scaled) are left out and named.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "merge/clock/clock_line.h"
#include "merge/clock/guest_bounds.h"
#include "merge/clock/guest_run_intervals.h"
#include "merge/clock/guest_syncs.h"
#include "merge/source/source.h"
#include "plugin/format/directory.h"

namespace trapline {

struct GuestAlignment {
  ClockLine line;
  std::string clock;   // of the host's recording
  std::string method;  // "sync records: 272 readings, 34 exits; 0 ns residual in 1,702 gaps"
  GuestSyncCounters syncs;
  GuestRunCounters gaps;
  // The host's threads of the guest's vCPUs, where the recording shows them.
  std::map<std::int32_t, ThreadId> threads;
};

using OpenSource = std::function<Result<std::unique_ptr<Source>>()>;

// The guest's times, by the guest's CPU: what GuestRunIntervals looks at. Those of no known CPU
// (kNoVcpu) only tell when the recording was made.
using TimesByCpu = std::map<std::int32_t, std::vector<std::uint64_t>>;

struct GuestRecording {
  std::string clock;  // of its records
  bool cycles = false;
  bool inside = false;  // it was made inside the guest
  std::vector<GuestSyncLine> syncs;
  std::vector<clocks::SyncEntry> brackets;  // between its clock and those that a guest can read
  std::function<Result<TimesByCpu>()> times;
};

// What the plugin or QEMU recorded; the directory outlives it.
[[nodiscard]] GuestRecording guest_recording(const DataDirectory& directory);

// Nothing when there are no guest sync records, or the host's recording shows none of what they
// name: then the two are no guest and host of one another. What was made inside a guest is refused
// beside a recording of a KVM host that shows nothing of it: their clocks may have one name, and
// are not the same.
[[nodiscard]] Result<std::optional<GuestAlignment>> align_guest(const GuestRecording& guest,
                                                                const OpenSource& host);

// Which thread runs a CPU of the guest. Guests count their CPUs from 0, KVM its vCPUs by their APIC
// ids, which may leave numbers out.
[[nodiscard]] std::optional<ThreadId> thread_of_cpu(const std::map<std::int32_t, ThreadId>& vcpus,
                                                    std::int32_t cpu);

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

}  // namespace trapline
