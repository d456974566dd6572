// The options of a recording, and record(), which makes it: recording_run.h has its steps.
//
// Guarantees: memory does not grow with the recording; the instance is gone afterwards on every
// path but SIGKILL (the next start removes it); nothing outside the instance and the session folder
// changes; what a killed recorder had flushed (all but the last second) stays readable.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/events/qemu_monitor.h"
#include "merge/record/event_set.h"
#include "merge/record/trigger.h"

namespace trapline::record {

inline constexpr const char* kDefaultFolder = "run.trapline";
inline constexpr std::uint64_t kDefaultBufferKb = 8192;
inline constexpr std::uint64_t kDefaultAroundNs = 1'000'000'000;
inline constexpr std::uint64_t kDefaultRingMb = 16;

// Only what is around the exits that the trigger waits for is kept.
struct SnapshotWish {
  Trigger trigger;
  std::uint64_t around_ns = kDefaultAroundNs;  // before and after each hit
  std::uint64_t ring_mb = kDefaultRingMb;      // pages in memory, of all CPUs
};

// The last `span_ns` are held in memory, and written only when somebody asks.
struct FlightWish {
  std::uint64_t span_ns = 0;
  std::uint64_t spacing_ns = 300'000'000'000;  // at most one snapshot in this time
  std::uint64_t budget_mb = 1024;              // on disk, all snapshots together
  std::uint64_t ring_mb = 64;                  // pages in memory, of all CPUs
};

// Where the plugin writes the guest's functions.
enum class Functions : std::uint8_t {
  kNone,
  kUftrace,  // the session's uftrace.data
  kFtrace,   // trace_marker: on the recording's own clock
  kBoth,
};
// "uftrace", "ftrace", "both", as the plugin's output= has them; an error (kUsage) of --functions
// for other words.
[[nodiscard]] Result<Functions> parse_functions(std::string_view text);
[[nodiscard]] std::string_view name_of(Functions functions);
[[nodiscard]] constexpr bool in_directory(Functions functions) {
  return functions == Functions::kUftrace || functions == Functions::kBoth;
}
[[nodiscard]] constexpr bool in_markers(Functions functions) {
  return functions == Functions::kFtrace || functions == Functions::kBoth;
}

struct RecordOptions {
  std::string folder = kDefaultFolder;
  std::vector<std::string> command;  // empty: the whole machine, or `pid`
  int pid = 0;
  std::optional<std::uint64_t> duration_ns;
  std::string clock = "mono";
  std::uint64_t buffer_kb = kDefaultBufferKb;  // for each CPU
  EventChoice events;
  std::vector<std::string> qemu_events;  // patterns
  static constexpr const char* kDefaultQemuEvents = "memory_region_ops_*";
  Functions functions = Functions::kNone;
  bool kernel_functions = false;  // those of KVM's modules, by function_graph
  std::string instance;           // the name of the ftrace instance; empty: one of our own
  std::optional<std::string> from_instance;  // record nothing: take what this one holds
  std::vector<std::string> symbols;          // copied into the session; for the plugin as well
  std::string user;
  std::optional<SnapshotWish> snapshot;
  std::optional<FlightWish> flight;
  bool follow = false;  // others read it while it grows: pages go to disk ten times a second
  std::string trapline_version;
  std::shared_ptr<QemuMonitor> monitor;  // of process `pid`, a QEMU: for its events
  // A line for the user.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

// Records; the exit status is the command's, or 1 where the recording itself was cut short. An
// Error means that nothing was recorded.
[[nodiscard]] Result<int> record(const RecordOptions& options);

}  // namespace trapline::record
