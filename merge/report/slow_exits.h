// Single exits: those that lasted at least TIME (--slower-than TIME), and those that did not end.
#pragma once

#include <string>
#include <vector>

#include "merge/analyze/exit_tracker.h"
#include "merge/model/exit_span.h"
#include "merge/pass/naming.h"
#include "merge/report/table.h"

namespace trapline {

// A copy of an exit for a sink that keeps it after the call, without intervals and handlers.
struct KeptExit : ExitSpan {
  KeptExit() = default;
  // The pipeline must divide the waits (SpanClass::kWaits).
  KeptExit(const ExitSpan& exit, const Pipeline& pipeline);
  LargestCulprit preempted;  // what ran longest while the vCPU was ready to run
};

// One exit in words. `preempted_by` is the culprit of preempted time, `preempted` a clause with it.
struct ExitRow {
  ExitSpan span;
  std::string vcpu, function, reason, detail, device, preempted_by, preempted;
};
// Returns the exit in words. `function` is the guest's function; kNoName if not known.
[[nodiscard]] ExitRow exit_row(const ExitSpan& span, NameId function, const Naming& naming,
                               const LargestCulprit& preempted = {});
// Returns "io, port 0x71 read, rtc, in outb"; `accesses` comes after the detail.
[[nodiscard]] std::string exit_text(const ExitRow& row, const std::string& accesses = {});

// The longest of the exits that last until the recording's end and are UnendedExit::is_notable.
class OpenExits {
 public:
  void add(const UnendedExit& exit);
  // Returns "vCPU 0 has been in an exit since 8.678771 (for 1.2 s): shutdown, in QEMU:
  // KVM_EXIT_SHUTDOWN."
  [[nodiscard]] std::vector<std::string> sentences(const Naming& names) const;

 private:
  static constexpr std::size_t kMost = 3;
  std::vector<UnendedExit> longest_;
  std::uint64_t all_ = 0;
};

// Returns a table with a row for each exit. `vmm_events`: the recording has events of QEMU.
[[nodiscard]] TableOf<ExitRow> slow_exit_table(std::vector<ExitRow> rows, const States& known,
                                               bool vmm_events);
// Adds the sentences of text: a line for each exit, and one with its parts.
void add_sentences(TableOf<ExitRow>& table, const States& known, bool cycles);

}  // namespace trapline
