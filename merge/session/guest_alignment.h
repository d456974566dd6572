// Places a guest's recording that has guest sync records on its host's clock: a recording of the
// plugin outside the guest, or of uftrace or trace-cmd inside. Pure: the data of both recordings is
// in CollectedEvidence; the rules are in guest_bounds.h, guest_syncs.h, relation.h and
// guest_run_intervals.h.
//
//   the guest's sync records ─┐
//                             ├→ GuestBounds ─→ Evidence ─→ Relation ──→ GuestRunIntervals
//   the host's recording ─────┘   (one pass)                    ↑       checks  │ refines
//                                                               └───────────────┘
//
// Evidence belongs to one guest. Exits identify the guest by the values that it wrote, so they come
// first. Evidence that contradicts the exits (a PTP clock that is not the host's, a scaled TSC) is
// left out and named. If nothing identifies the guest, the contradicting evidence is an Error, or
// does not count. Evidence that contradicts itself is an Error that names the contradicting pair.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "merge/clock/guest_bounds.h"
#include "merge/clock/guest_run_intervals.h"
#include "merge/clock/guest_syncs.h"
#include "merge/clock/relation.h"
#include "merge/session/collected_evidence.h"

namespace trapline {

struct GuestAlignment {
  clocks::Relation line;
  std::string clock;   // the clock of the host's recording
  std::string method;  // "sync records: 272 readings, 34 exits; 0 ns residual in 1,702 gaps"
  GuestSyncCounters syncs;
  GuestRunCounters gaps;
  // The host's threads of the guest's vCPUs, if the recording shows them.
  std::map<std::int32_t, ThreadId> threads;
};

struct GuestRecording {
  std::string clock;  // the clock of its records
  bool cycles = false;
  bool inside = false;        // the recording was made inside the guest
  bool same_machine = false;  // the recording is known to be of the host's machine
  bool own_syncs = false;     // the sync records are markers of this recording
  std::vector<GuestSyncLine> syncs;
  // Readings that relate the recording's clock to the clocks that a guest can read.
  std::vector<clocks::SyncEntry> brackets;
  TimesByCpu times;
};

// Returns the guest's sync records, which become bounds when collect() shows them the host's
// recording.
[[nodiscard]] Result<GuestBounds> guest_bounds(const GuestRecording& guest, const StampClock& host);

// Places the guest's recording on the host's clock. Nullopt if there are no guest sync records, or
// if the host's recording shows nothing of them: then the two are not guest and host. A recording
// made inside a guest is an Error if the recording of a KVM host shows nothing of it: their clocks
// may have the same name, but are different.
[[nodiscard]] Result<std::optional<GuestAlignment>> align_guest(const GuestRecording& guest,
                                                                GuestBounds& bounds,
                                                                const StampClock& host,
                                                                const CollectedEvidence& of_host,
                                                                const Processes& processes);

// Returns the thread that runs a CPU of the guest. Guests count their CPUs from 0; KVM counts its
// vCPUs by their APIC ids, which may skip numbers.
[[nodiscard]] std::optional<ThreadId> thread_of_cpu(const std::map<std::int32_t, ThreadId>& vcpus,
                                                    std::int32_t cpu);

}  // namespace trapline
