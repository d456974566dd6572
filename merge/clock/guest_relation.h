// Relates a uftrace directory, whose sync.txt holds guest sync records, to a recording: of the
// guest that executed the no-ops, or of the KVM host around it. Reads both; the rules are
// guest_bounds.h, line_band.h and guest_gaps.h.
//
//   sync.txt ─┐
//             ├→ GuestBounds ─→ fit_line ─→ places the guest's records ─→ GuestGaps ─→ fit_line
//             again
//   recording ┘   (pass 1)                                    (pass 2)     checks, refines
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "merge/clock/guest_bounds.h"
#include "merge/clock/guest_gaps.h"
#include "merge/clock/line_band.h"
#include "merge/source/source.h"
#include "plugin/format/directory.h"

namespace trapline {

struct GuestRelation {
  ClockLine line;
  std::string method;  // "sync records: 272 readings, 34 exits; 0 ns residual in 1,702 gaps"
  GuestSyncCounters syncs;
  GuestGapCounters gaps;
  // The host's threads of the guest's vCPUs, where the recording shows them.
  std::map<std::int32_t, ThreadId> threads;
};

using OpenSource = std::function<Result<std::unique_ptr<Source>>()>;

// Nothing when the directory has no guest sync records, or the recording shows none of what they
// name: then the two are no guest and host of one another.
[[nodiscard]] Result<std::optional<GuestRelation>> relate_guest(const DataDirectory& directory,
                                                                const OpenSource& open);

// The vCPU of a task of the plugin's (contexts=vcpu or privilege), kNoVcpu for others.
[[nodiscard]] std::int32_t vcpu_of_task(std::uint32_t tid);

}  // namespace trapline
