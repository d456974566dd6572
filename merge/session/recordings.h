// Brings recordings onto one timeline: describes them, collects evidence of their clocks, aligns
// and opens them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "merge/clock/alignment.h"
#include "merge/clock/shift_bound.h"
#include "merge/session/collected_evidence.h"
#include "merge/session/guest_alignment.h"
#include "merge/session/input.h"
#include "merge/session/open.h"
#include "merge/source/source.h"

namespace trapline {

// One recording on its way to the timeline. `source` is read for the result.
struct Recording {
  RecordingPart part;
  std::unique_ptr<Source> source;
  Description is;
  std::optional<CollectedEvidence> evidence;
  // Set for a guest's recording that has sync records of the guest.
  std::optional<GuestRecording> guest;
  std::optional<GuestBounds> bounds;
  std::optional<GuestAlignment> aligned;
  // Set for a guest's recording that trace-cmd shifted to the clock of a host that is also here.
  std::optional<ShiftBound> shift;
};

//   paths ─→ describe ─→ evidence of guests ─→ evidence of the host ─→ align ─→ sources
//
// Each recording is opened once. If its evidence is needed, it is read to its end before it is read
// for the result; a guest whose times are shifted is read together with its host. The host's
// recording is the first one.
class Recordings {
 public:
  // Borrows both arguments, which must outlive this object.
  Recordings(const InputOptions& options, Input& input);

  [[nodiscard]] Result<void> open(const std::vector<RecordingPart>& parts);

 private:
  Result<void> describe(const std::vector<RecordingPart>& parts);
  Result<void> collect_evidence(const std::vector<Recording*>& all, const Collect& what);
  Result<std::vector<GuestSyncLine>> printed_in(const Recording& recording) const;
  Result<void> gather_shifted();
  Result<void> gather_guests();
  Result<void> gather_guest(Recording& recording);
  Result<void> gather_host();
  Result<void> align_guests();
  Result<void> align_clocks();
  [[nodiscard]] Result<void> check_cpus(const clocks::Alignment& alignment) const;
  Result<std::vector<clocks::SourceClock>> read_clocks(bool with_syncs);
  // For a guest that trace-cmd recorded together with its host, with shifted times: the host, and
  // its threads for the guest's CPUs.
  struct ShiftedGuest {
    const Recording& host;
    std::map<std::int32_t, ThreadId> threads;
  };
  [[nodiscard]] std::optional<ShiftedGuest> shifted_guest(const Recording& recording) const;
  Result<void> check_shift(const Recording& recording, clocks::Alignment& alignment) const;
  [[nodiscard]] std::size_t aligned_place(const Recording& recording) const;
  bool leave_out_last(const std::string& why);

  [[nodiscard]] bool has_host() const { return recordings_.front().is.witness == Witness::kKernel; }
  [[nodiscard]] EvidenceObserver* what_observes() const {
    return has_host() && !observed_ ? options_.observer : nullptr;
  }
  [[nodiscard]] HostRecording host() const {
    return {recordings_.front().is.clock, recordings_.front().is.cycles, options_.rate_change_ppm};
  }
  [[nodiscard]] Kinship kinship(const Description& is) const {
    const std::string host = machine_name(recordings_.front().is), name = machine_name(is);
    if (host.empty() || name.empty()) return Kinship::kUnknown;
    return host == name ? Kinship::kSameMachine : Kinship::kOtherMachine;
  }

  const InputOptions& options_;
  Input& input_;
  std::vector<Recording> recordings_;
  bool observed_ = false;  // the observer has seen the host's recording
  // The output of `trapline sync` in a guest, and where it was read.
  std::vector<GuestSyncLine> printed_;
  std::string printed_path_;
};

}  // namespace trapline
