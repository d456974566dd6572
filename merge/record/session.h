// What the recorder knows of its session. What is kept of it is merge/session/session_json.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "merge/record/event_set.h"
#include "merge/record/recorder.h"
#include "merge/record/snapshot/snapshot.h"
#include "merge/record/threads.h"
#include "merge/session/session_folder.h"
#include "merge/session/session_json.h"

namespace trapline::record {

// The recorder's sync records: markers in the recording, and the best brackets in session.json.

// Guarantees: at most kMostSyncs brackets, the first and the last among them, evenly thinned out
// when a recording is long (all of them are in the recording itself).
class SyncLog {
 public:
  // Writes one series through the marker's descriptor; false when the kernel refused it.
  bool write_series(int marker_fd);
  // The kernel's stamp of a marker that was read back; others than those kept are passed over.
  void stamp(std::uint64_t series, std::uint32_t index, std::uint64_t stamp);
  [[nodiscard]] const std::vector<SessionSync>& brackets() const { return brackets_; }

 private:
  void keep(const SessionSync& bracket);
  std::vector<SessionSync> brackets_;
  std::uint64_t stride_ = 1, seen_ = 0;
  bool last_is_extra_ = false;
};

// facts_of() adds to it the host and the clocks, and `events`, `threads`, `functions` and
// `snapshot` from what the recorder knows of them.
struct Session : SessionJson {
  std::string clock = "mono";
  std::vector<EventName> enabled_events;
  std::map<pid_t, Thread> seen_threads;       // by tid
  Functions plugin_calls = Functions::kNone;  // where the plugin writes them
  std::string snapshot_on;                    // the expression; empty: everything is kept
  std::uint64_t around_ns = 0;
  SnapshotFacts snapshot_facts;  // of snapshot_on
  bool out_in_session = false;   // it writes uftrace.data
};

// What session.json says of it.
[[nodiscard]] SessionJson facts_of(const Session& session);
[[nodiscard]] Result<void> write_session(const Folder& folder, const Session& session);

// An Error where what is recorded was removed: what is written from then on has no name.
[[nodiscard]] Result<void> check_presence(const Folder& folder);

// Of per_cpu/cpuN/stats.
[[nodiscard]] CpuLoss read_loss(unsigned cpu, const std::string& stats);

}  // namespace trapline::record
