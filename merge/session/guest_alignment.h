// Puts a guest's recording, beside which there are guest sync records, on its host's clock: what
// the plugin recorded outside of the guest, or what uftrace or trace-cmd recorded inside. Pure:
// what was read of both is in CollectedEvidence; the rules are guest_bounds.h, guest_syncs.h,
// relation.h and guest_run_intervals.h.
//
//   the guest's sync records ─┐
//                             ├→ GuestBounds ─→ Evidence ─→ Relation ──→ GuestRunIntervals
//   the host's recording ─────┘   (one pass)                    ↑       checks  │ refines
//                                                               └───────────────┘
//
// Evidence belongs to one guest. Exits identify it by the values that it wrote, so they come first;
// what contradicts them (a PTP clock that is not the host's, a TSC that is scaled) is left out and
// named. Where nothing identifies the guest, it is refused, or is none. Evidence that contradicts
// itself is refused with the pair that does.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "merge/clock/guest_bounds.h"
#include "merge/clock/guest_run_intervals.h"
#include "merge/clock/guest_syncs.h"
#include "merge/clock/relation.h"
#include "merge/model/source_alignment.h"
#include "merge/session/collected_evidence.h"
#include "plugin/format/directory.h"

namespace trapline {

struct GuestAlignment {
  clocks::Relation line;
  std::string clock;   // of the host's recording
  std::string method;  // "sync records: 272 readings, 34 exits; 0 ns residual in 1,702 gaps"
  GuestSyncCounters syncs;
  GuestRunCounters gaps;
  // The host's threads of the guest's vCPUs, where the recording shows them.
  std::map<std::int32_t, ThreadId> threads;

  [[nodiscard]] SourceAlignment of_source() const {
    SourceAlignment aligned;
    aligned.method = method;
    aligned.offset_ns = line.offset();
    aligned.error_ns = line.error();
    aligned.rate_change_ppm = line.assumption().change_ppm;
    return aligned;
  }
};

// How the guest's machine stands to the host's, by their names.
enum class Kinship : std::uint8_t { kUnknown, kSameMachine, kOtherMachine };

struct GuestRecording {
  std::string clock;  // of its records
  bool cycles = false;
  bool inside = false;  // it was made inside the guest
  Kinship kinship = Kinship::kUnknown;
  bool own_syncs = false;  // the records are markers of this recording
  std::vector<GuestSyncLine> syncs;
  std::vector<clocks::SyncEntry> brackets;  // between its clock and those that a guest can read
  TimesByCpu times;
};

struct HostRecording {
  std::string clock;
  bool cycles = false;
  std::optional<double> rate_change_ppm = std::nullopt;  // the user's word (AlignOptions)
  // Its clock, where a guest can read it, too.
  [[nodiscard]] std::optional<ClockId> readable() const;
  [[nodiscard]] StampClock stamps() const { return {clock, cycles, rate_change_ppm}; }
};

// What the plugin or QEMU recorded.
[[nodiscard]] Result<GuestRecording> guest_recording(const DataDirectory& directory);

// What the guest says; shown the host's recording (collect()), it becomes bounds.
[[nodiscard]] Result<GuestBounds> guest_bounds(const GuestRecording& guest,
                                               const HostRecording& host);

// Nothing when there are no guest sync records, or the host's recording shows none of what they
// name: then the two are no guest and host of one another. What was made inside a guest is refused
// beside a recording of a KVM host that shows nothing of it: their clocks may have one name, and
// are not the same.
[[nodiscard]] Result<std::optional<GuestAlignment>> align_guest(const GuestRecording& guest,
                                                                GuestBounds& bounds,
                                                                const HostRecording& host,
                                                                const CollectedEvidence& of_host,
                                                                const Processes& processes);

// Which thread runs a CPU of the guest. Guests count their CPUs from 0, KVM its vCPUs by their APIC
// ids, which may leave numbers out.
[[nodiscard]] std::optional<ThreadId> thread_of_cpu(const std::map<std::int32_t, ThreadId>& vcpus,
                                                    std::int32_t cpu);

}  // namespace trapline
