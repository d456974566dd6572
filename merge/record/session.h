// session.json: what a recording is of, and whether it was closed. docs/recording.md lists its
// fields.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "merge/record/event_set.h"
#include "merge/record/snapshot/snapshot.h"
#include "merge/record/sync_log.h"
#include "merge/record/threads.h"

namespace trapline::record {

// What per_cpu/cpuN/stats counts at the end, and pages that could not be written.
struct CpuLoss {
  unsigned cpu = 0;
  std::uint64_t overwritten = 0;      // events that the kernel overwrote before they were read
  std::uint64_t dropped = 0;          // events that found no room
  std::uint64_t unwritten_pages = 0;  // read from the kernel and not written to disk
  std::uint64_t unread = 0;  // events left in the kernel, where the recording was cut short
  [[nodiscard]] bool any() const { return overwritten + dropped + unwritten_pages + unread != 0; }
};

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
  std::vector<SyncBracket> sync;
  std::vector<CpuLoss> losses;
  std::string ended_by;               // "command", "duration", "signal", or an error
  std::vector<std::string> warnings;  // what somebody else did to the instance
  std::optional<int> exit_status;
  std::string snapshot_on;  // the expression; empty: everything is kept
  std::uint64_t around_ns = 0;
  SnapshotFacts snapshot;
  bool functions = false;  // the plugin writes uftrace.data
  bool closed = false;
};

[[nodiscard]] std::string session_text(const Session& session);
[[nodiscard]] Result<void> write_session(const std::string& folder, const Session& session);

// Makes the folder of a new session with its raw/; an earlier session of that name becomes
// NAME.old (and replaces an earlier NAME.old). A folder that holds anything else is refused.
[[nodiscard]] Result<void> make_session_folder(const std::string& folder);

// "overrun: 12\n…" as in per_cpu/cpuN/stats.
[[nodiscard]] CpuLoss read_loss(unsigned cpu, const std::string& stats);

}  // namespace trapline::record
