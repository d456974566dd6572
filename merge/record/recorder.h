// The options of a recording, and record(), which makes the recording (recording_run.cc has the
// steps).
//
// Guarantees: memory does not grow with the recording. The instance is removed on every path; after
// SIGKILL, by the watchdog (instance.h). Nothing outside the instance and the session folder
// changes, but for a QEMU that already runs (running_qemu.h). If the recorder is killed, everything
// but the last second was flushed and stays readable.
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

// --snapshot-on: keeps only the time around the exits or stalls that the trigger waits for.
struct SnapshotOptions {
  Trigger trigger;
  std::uint64_t around_ns = 1'000'000'000;  // before and after each hit
  std::uint64_t ring_mb = 16;               // pages in memory, for all CPUs together
};

// --flight: keeps the last `span_ns` of events in memory and writes them only on request.
struct FlightOptions {
  std::uint64_t span_ns = 0;
  std::uint64_t spacing_ns = 300'000'000'000;  // limit: one snapshot per this time
  std::uint64_t budget_mb = 1024;              // on disk, for all snapshots together
  std::uint64_t ring_mb = 64;                  // pages in memory, for all CPUs together
};

// The destination of the guest's functions, which the plugin writes.
enum class Functions : std::uint8_t {
  kNone,
  kUftrace,  // into the session's uftrace.data
  kFtrace,   // into trace_marker, on the recording's own clock
  kBoth,
};
// Parses "uftrace", "ftrace" or "both", as in the plugin's output=. Other words are an error
// (kUsage) of --functions.
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
  std::vector<std::string> command;  // empty: record the whole machine, or `pid`
  int pid = 0;
  std::optional<std::uint64_t> duration_ns;
  std::string clock = "mono";
  std::uint64_t buffer_kb = 8192;  // per CPU
  EventChoice events;
  std::vector<std::string> qemu_events;  // patterns
  static constexpr const char* kDefaultQemuEvents = "memory_region_ops_*";
  Functions functions = Functions::kNone;
  bool kernel_functions = false;  // record the functions of KVM's modules, with function_graph
  std::string instance;           // name of the ftrace instance; empty: a generated one
  std::optional<std::string> from_instance;  // record nothing, but take what this instance holds
  std::vector<std::string> symbols;          // copied into the session, and passed to the plugin
  std::string user;
  std::optional<SnapshotOptions> snapshot;
  std::optional<FlightOptions> flight;
  // Others read the recording while it grows: write pages to disk ten times a second.
  bool follow = false;
  std::string trapline_version;
  // The monitor of the QEMU that is process `pid`; null: that QEMU's events are not recorded.
  std::shared_ptr<QemuMonitor> monitor;
  // Prints a line for the user.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

// Records. Returns the command's exit status, or 1 if the recording itself was cut short. The Error
// means that nothing was recorded.
[[nodiscard]] Result<int> record(const RecordOptions& options);

}  // namespace trapline::record
