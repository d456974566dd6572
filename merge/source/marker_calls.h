// Parses guest calls that the plugin writes into trace_marker (docs/formats/ftrace-calls.md):
//
//   trapline: E cpu0 d=1 0x100a30 small_b          a call
//   trapline: X cpu0 d=1 t=101 0x100a30 small_b    a return, of the task 101
//   trapline: L cpu0 12                            the kernel did not take 12 markers
//
// The recording's own clock stamps the markers, on the thread that runs the vCPU. So no clocks have
// to be aligned, and the thread shows which guest made the call. Each marker has its call's depth,
// so calls and returns can be paired even if a marker was lost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "merge/model/event.h"
#include "merge/source/source.h"

namespace trapline {

struct MarkerCall {
  bool entry = false;
  std::int32_t vcpu = 0;
  std::uint32_t depth = 0;
  std::optional<std::uint32_t> task;  // the guest task, if tasks take turns on the vCPU
  std::uint64_t function = 0;
  std::string_view name;  // empty without a symbol
};
// Returns nullopt if the text is not a marker call.
[[nodiscard]] std::optional<MarkerCall> parse_marker_call(std::string_view text);

struct MarkerLoss {
  std::int32_t vcpu = 0;
  std::uint64_t calls = 0;
};
[[nodiscard]] std::optional<MarkerLoss> parse_marker_loss(std::string_view text);

// The beginning or end of one run of the plugin: "trapline: calls 1 begin run=ID pid=P …". The
// sync.txt in the run's directory has the same `run`.
struct MarkerRun {
  bool begins = false;
  std::string_view run;
  std::uint64_t written = 0, lost = 0;  // set at the end of a run
};
[[nodiscard]] std::optional<MarkerRun> parse_marker_run(std::string_view text);

// Turns the marker calls of one recording into GuestCall events and numbers their call stacks.
class MarkerCalls {
 public:
  // Handles an event that is a Marker: a call becomes a GuestCall. A marker that reports lost calls
  // stays a marker, because the plugin lost them, not the kernel. Counts losses and texts that do
  // not follow the grammar.
  void on(Event& event, SourceCounters& counters);

 private:
  static constexpr std::size_t kMostStacks = 1u << 16;
  // Identifies a call stack: the thread, its vCPU (a thread may run several vCPUs) and the task.
  using Stack = std::tuple<ThreadId, std::int32_t, std::uint32_t>;
  std::map<Stack, std::int32_t> stacks_;
};

}  // namespace trapline
