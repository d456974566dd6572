// session.json: what a recording contains, and whether it was closed. The recorder writes it, and
// every reader of the session reads it; docs/formats/session.md lists its fields.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/result.h"
#include "merge/clock/sync_points.h"

namespace trapline {

// The counts of per_cpu/cpuN/stats at the end, and pages that could not be written.
struct CpuLoss {
  unsigned cpu = 0;
  std::uint64_t overwritten = 0;      // events that the kernel overwrote before they were read
  std::uint64_t dropped = 0;          // events for which there was no room
  std::uint64_t unwritten_pages = 0;  // read from the kernel and not written to disk
  std::uint64_t unread = 0;           // events left in the kernel when the recording was cut short
  std::uint64_t read_by_others = 0;   // at least this many events
  [[nodiscard]] bool any() const {
    return overwritten + dropped + unwritten_pages + unread + read_by_others != 0;
  }
};

// A change of the instance by another process. Between from_ns and to_ns, by the recording's clock,
// events may be missing without any other sign. Both are 0 if the clock cannot be read: then events
// of the whole recording may be missing.
struct SessionChange {
  std::vector<std::string> files;  // files that the process wrote in the instance's folder
  std::uint64_t from_ns = 0, to_ns = 0;
  bool goes_on = false;  // until the recording's end
  bool operator==(const SessionChange&) const = default;
};

struct SessionThread {
  std::int32_t tid = 0, pid = 0;
  std::string name;
  // /proc/TID/schedstat before the first event and after the last one: the CPU time, and how often
  // the thread was switched in. Nullopt if the thread was not there at both times.
  std::optional<std::array<std::uint64_t, 2>> ran_ns = std::nullopt, turns = std::nullopt;
};
// A virtual machine: its process, and the name that its owner gave it.
struct SessionVm {
  std::int32_t pid = 0;
  std::string name;
};

// The counts in cpu.stat of a cgroup of threads, or of a cgroup above it, when first and when last
// seen.
struct SessionCgroup {
  std::string path;  // "/machine/vm1"; for cgroup v1 "cpu:/machine/vm1"
  std::array<std::uint64_t, 2> throttled{}, throttled_ns{};  // `throttled` is nr_throttled
  std::vector<std::int32_t> threads;                         // tids in it
  std::optional<std::array<std::uint64_t, 2>> usage_usec = std::nullopt;  // cgroup v1 has none
};

// The greatest number of sync series that the recorder keeps; further ones are thinned out.
inline constexpr std::size_t kMostSyncs = 64;
struct SessionSync {
  std::uint64_t series = 0;
  std::uint32_t index = 0;  // number, in the series, of the marker between the two readings
  ClockReadings before, after;
  std::optional<std::uint64_t> stamp;  // the marker's stamp on the recording's clock
  std::optional<ClockAdjustment> adjustment = std::nullopt;
};

struct SessionHit {
  std::uint64_t at_ns = 0, ns = 0;
  std::string reason;
  std::int32_t tid = 0;
  std::optional<std::int32_t> vcpu;
  bool open = false, near_loss = false;
};
struct SessionWindow {
  std::uint64_t from_ns = 0, to_ns = 0;
  bool operator==(const SessionWindow&) const = default;
};
// The facts about --snapshot-on: the hits, and how much was kept or left out on purpose.
struct SessionSnapshot {
  std::string on;  // the expression
  std::uint64_t around_ns = 0;
  std::uint64_t hits = 0, shortened = 0, near_loss = 0;
  std::uint64_t kept_events = 0, left_out_events = 0, unwritten_events = 0;
  std::vector<std::string> whole_run;
  std::optional<SessionHit> longest;
  std::vector<SessionHit> first_hits;
  std::uint64_t windows = 0;
  std::vector<SessionWindow> first_windows;
};

// A snapshot of the flight recorder: who requested it and why, and which part of the recording it
// contains.
struct SessionFlight {
  std::string asked_by;  // "command", "signal", "expression"
  std::string why;
  std::uint64_t span_ns = 0;             // the length of time that the recorder was to keep
  std::uint64_t from_ns = 0, to_ns = 0;  // the time that it kept, by the recording's clock
  bool shortened = false;                // it kept less, because its memory was full
  std::uint64_t refused = 0;             // requests since the previous snapshot that came too soon
};

// A recording in the session, by its name, with its size in bytes when the session was closed; for
// a folder the size of its files.
struct SessionPart {
  std::string name;
  std::uint64_t size = 0;
};
// The recordings that a session may contain, and the output of `trapline sync`.
inline constexpr std::array<const char*, 6> kSessionParts{"trace.dat", "perf.data", "uftrace.data",
                                                          "qemu.log",  "trace.bin", "sync.txt"};

inline constexpr std::size_t kMostSlots = 4096;
// A memory slot of a VM: guest-physical addresses, and the name of QEMU's memory there.
struct SessionSlot {
  std::uint64_t first = 0, last = 0;
  std::string name;
  std::optional<std::uint64_t> offset = std::nullopt;  // of `first`, in the memory named `name`
  bool operator==(const SessionSlot&) const = default;
};
// The memory of a VM's process, in KiB.
struct SessionMemory {
  std::int32_t pid = 0;
  std::uint64_t anonymous = 0, file = 0, shared = 0, swapped = 0;
};
// The settings and the memory that decide on page faults, at the recording's beginning or end.
struct SessionEdge {
  std::string huge_pages, same_pages;  // transparent_hugepage/enabled, ksm/run: the kernel's words
  std::vector<std::string> swaps;      // as SessionJson::swaps
  std::vector<SessionMemory> memory;
  std::vector<SessionSlot> slots;  // of the session's `pid`, from QEMU's monitor
};

struct SessionHost {
  std::string kernel, machine, name;
  std::int64_t cpus = 0;
  std::string boot_id;  // different after each boot; empty: not known
  // True if the kernel counts the time of interrupts, and that taken by a hypervisor, apart from
  // the threads' CPU time (CONFIG_IRQ_TIME_ACCOUNTING, CONFIG_PARAVIRT_TIME_ACCOUNTING).
  std::optional<bool> irq_time_apart = std::nullopt, steal_time_apart = std::nullopt;
};

struct SessionJson {
  bool closed = false;
  std::vector<std::string> command;  // as it was run, including what was added
  std::vector<std::string> added;
  std::int32_t pid = 0;
  std::string user;
  SessionHost host;
  std::string trapline_version, qemu_version;
  std::vector<std::pair<std::string, std::string>> clocks;  // {"trace.dat", "mono"}, …
  std::string
      functions;  // where the plugin wrote them: "uftrace", "ftrace", "both"; empty: nowhere
  std::uint64_t start_real_ns = 0, end_real_ns = 0;
  std::string instance;
  std::int32_t recorder_pid = 0;
  std::uint64_t buffer_kb = 0;
  std::optional<SessionSnapshot> snapshot;
  std::optional<SessionFlight> flight;
  std::string ended_by;  // "command", "process", "duration", "signal", "snapshot", or an error
  std::vector<std::string> warnings;
  std::optional<int> exit_status;
  std::vector<CpuLoss> losses;
  std::vector<SessionChange> changes;
  std::vector<std::string> events;  // "SYSTEM:NAME"
  std::vector<std::string> swaps;   // a device as "MAJOR:MINOR", else "file"
  std::vector<SessionEdge> edges;   // of --faults: the recording's beginning and end
  std::vector<SessionVm> vms;
  std::vector<SessionThread> threads;
  std::vector<SessionCgroup> cgroups;
  std::vector<SessionSync> sync;
  std::vector<SessionPart> parts;  // set when the session is closed
  std::string unreadable;          // why session.json cannot be read; not a field of the text

  // Returns the sync records whose marker's stamp is known and whose clock readings are in order,
  // sorted by stamp.
  [[nodiscard]] std::vector<clocks::SyncEntry> brackets() const;
  // Returns sentences about missing events that the pages, where losses are marked, do not show; or
  // that nothing is known about them.
  [[nodiscard]] std::vector<std::string> missing() const;
  // Returns whether brackets() replaces a search for sync records in the recording.
  [[nodiscard]] bool has_all_syncs() const;
};

[[nodiscard]] std::string to_text(const SessionJson& session);
// Writes session.json, with the parts in the folder if the session is closed: each has its final
// name and size by then.
[[nodiscard]] Result<void> write_session_json(const Folder& folder, const SessionJson& session);

// Returns nullopt if the text is not a JSON object. Fields that are missing or damaged get their
// defaults and damaged list elements are left out, so that the recording can still be read.
[[nodiscard]] std::optional<SessionJson> parse_session_json(const std::string& text);
// Returns the size in bytes of a session's part, for a folder that of its files; 0 if it does not
// exist.
[[nodiscard]] std::uint64_t size_of_part(const Folder& session, const std::string& name);

// Reads FOLDER/session.json; nullopt if it does not exist. If it exists and cannot be read, only
// `unreadable` is set.
[[nodiscard]] std::optional<SessionJson> read_session_json(const std::string& folder);
// Reads the session.json beside a trace.dat; nullopt for a file with another name.
[[nodiscard]] std::optional<SessionJson> session_of_recording(const std::string& path);

}  // namespace trapline
