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
#include "merge/record/sync_log.h"
#include "merge/record/threads.h"
#include "merge/session/session_folder.h"
#include "merge/session/session_json.h"

namespace trapline::record {

struct Session {
  std::vector<std::string> command;  // as it was run, with what was added
  std::vector<std::string> added;
  pid_t pid = 0;
  std::string user;
  std::string qemu_version;
  std::string trapline_version;
  std::string clock = "mono";
  std::uint64_t buffer_kb = 0;
  std::string instance;
  std::vector<EventName> events;
  std::uint64_t start_real_ns = 0, end_real_ns = 0;
  std::map<pid_t, Thread> threads;
  std::vector<SessionVm> vms;  // the names of the virtual machines
  std::vector<SessionCgroup> cgroups;
  std::vector<SyncBracket> sync;
  std::vector<CpuLoss> losses;
  std::string ended_by;               // "command", "duration", "signal", or an error
  std::vector<std::string> warnings;  // sentences: what is missing beside lost events
  std::optional<int> exit_status;
  std::string snapshot_on;  // the expression; empty: everything is kept
  std::uint64_t around_ns = 0;
  SnapshotFacts snapshot;
  std::optional<SessionFlight> flight;
  Functions functions = Functions::kNone;  // where the plugin writes them
  bool kernel_samples = false;             // perf.data
  bool out_in_session = false;             // it writes uftrace.data
  bool closed = false;
};

// What session.json says of it.
[[nodiscard]] SessionJson facts_of(const Session& session);
[[nodiscard]] Result<void> write_session(const Folder& folder, const Session& session);

// An Error where somebody has removed what is recorded: what is written from then on has no name.
[[nodiscard]] Result<void> check_presence(const Folder& folder);

// Of "overrun: 12\n…" as in per_cpu/cpuN/stats: 12; 0 where it says nothing of it.
[[nodiscard]] std::uint64_t stats_value(const std::string& stats, std::string_view title);
[[nodiscard]] CpuLoss read_loss(unsigned cpu, const std::string& stats);

}  // namespace trapline::record
