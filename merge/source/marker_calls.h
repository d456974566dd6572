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

// Parses a marker call. Its `task` is the guest's, if tasks take turns on the vCPU, else 0; its
// name is empty without a symbol. Returns nullopt if the text is not a marker call.
[[nodiscard]] std::optional<GuestCall> parse_marker_call(std::string_view text);

// Parses a marker that reports lost calls, and returns their number.
[[nodiscard]] std::optional<std::uint64_t> parse_marker_loss(std::string_view text);

// Parses the beginning or the end of one run of the plugin, "trapline: calls 1 begin run=ID pid=P
// …", and returns the run's id. The sync.txt in the run's directory has the same `run`.
[[nodiscard]] std::optional<std::string_view> parse_marker_run(std::string_view text);

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
  using Stack = std::tuple<ThreadId, std::int32_t, std::int32_t>;
  std::map<Stack, std::int32_t> stacks_;
};

}  // namespace trapline
