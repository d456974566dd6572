// Guest calls that the plugin writes into trace_marker (docs/formats/ftrace-calls.md):
//
//   trapline: E cpu0 d=1 0x100a30 small_b          a call
//   trapline: X cpu0 d=1 t=101 0x100a30 small_b    a return, of the task 101
//   trapline: L cpu0 12                            the kernel did not take 12 markers
//
// They are stamped by the recording's own clock, on the thread that runs the vCPU: no relation of
// clocks is needed, and several guests are told apart by their threads. A marker that was lost
// unbalances nothing: each says its depth.
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
  std::optional<std::uint32_t> task;  // of the guest's tasks that take turns on the vCPU
  std::uint64_t function = 0;
  std::string_view name;  // empty without a symbol
};
// Nothing where the text is another one.
[[nodiscard]] std::optional<MarkerCall> parse_marker_call(std::string_view text);

struct MarkerLoss {
  std::int32_t vcpu = 0;
  std::uint64_t calls = 0;
};
[[nodiscard]] std::optional<MarkerLoss> parse_marker_loss(std::string_view text);

// What one run of the plugin says of itself: "trapline: calls 1 begin run=ID pid=P …"; `run` is
// also in the sync.txt of the directory that the same run writes.
struct MarkerRun {
  bool begins = false;
  std::string_view run;
  std::uint64_t written = 0, lost = 0;  // of an end
};
[[nodiscard]] std::optional<MarkerRun> parse_marker_run(std::string_view text);

// Turns the markers of one recording into events; keeps what tells their stacks apart.
class MarkerCalls {
 public:
  // For an event that is a Marker; one that is a call becomes a GuestCall. One that tells of lost
  // calls stays a marker: what is lost is of the plugin's, not of the kernel's record. Losses, and
  // records of either that do not follow the grammar, are counted.
  void on(Event& event, SourceCounters& counters);

 private:
  static constexpr std::size_t kMostStacks = 1u << 16;
  // The thread, its vCPU (one thread runs all of them where QEMU has no thread for each) and task.
  using Stack = std::tuple<ThreadId, std::int32_t, std::uint32_t>;
  std::map<Stack, std::int32_t> stacks_;
};

}  // namespace trapline
