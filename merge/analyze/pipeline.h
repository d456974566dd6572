// From the events of one timeline to spans, for as many sinks as are there.
//
//   events ──> exits ──────┬─> exit(), span() ──> sinks
//         ├──> guest stacks┤
//         ├──> requests ───┤       what no sink asks for is not made
//         ├──> interrupts ─┤
//         └──> halts ──────┘
//
// One pass, in order of time; no I/O, no clock, no log. Memory does not grow with the recording.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "backend_ftrace/tracetool/declarations.h"
#include "merge/analyze/exit_tracker.h"
#include "merge/analyze/guest_intervals.h"
#include "merge/analyze/guest_stacks.h"
#include "merge/analyze/halts.h"
#include "merge/analyze/host_runs.h"
#include "merge/analyze/placement_check.h"
#include "merge/analyze/span_builder.h"
#include "merge/analyze/span_sink.h"
#include "merge/analyze/threads.h"
#include "merge/analyze/vhost_tracker.h"
#include "merge/model/processes.h"
#include "merge/model/wall_clock.h"
#include "plugin/format/symbol_table.h"

namespace trapline {

class KernelTracker;
class PageFaults;
class Pipeline;
class StallTracker;

struct PipelineOptions {
  ExitModel model;
  GuestRuns guest_runs = GuestRuns::kBetweenExits;
  const tracetool::Declarations* declared = nullptr;  // the program's, or none; borrowed
  const SymbolTable* symbols = nullptr;               // the guest's; borrowed
  Processes processes;                                // known beforehand
  // Which requests are followed; empty: those that QEMU's own devices trace.
  std::vector<RequestSpec> requests;
  // Which intervals of the guest are followed, where a sink selects them, and how their events are
  // read.
  std::optional<GuestSpanSpec> guest_intervals;
  GuestIntervals::TextOf event_name, event_text;
  // Of HostStep::kFunctionBegin.
  std::function<std::string(const Event&)> kernel_function;
  // Stalls that last at least so long are handed out, where a sink selects them.
  std::uint64_t stalls_ns = 10'000'000;
  // As PageFaults has them.
  bool records_file_pages = false;
  std::set<std::uint32_t> swaps;
  // What each source of the timeline records; sources beyond the list are the host kernel's.
  std::vector<Role> roles;
  // By source, of those whose clock had to be related: PlacementCheck.
  std::vector<std::optional<std::uint64_t>> placement_errors;
  // Nothing before and after is looked at. Relative ones count from the first event.
  std::optional<TimeSpec> from, to;
  // The vCPU threads whose exits are handed out; nothing: all.
  std::optional<std::set<ThreadId>> threads;
  // Asked once for each exit of those: whether it is handed out, in exit() and span(); empty: all.
  // The states of the vCPUs are of all exits.
  std::function<bool(const ExitSpan&, const Pipeline&)> wants;
};

class Pipeline {
 public:
  // The sinks are borrowed, as is what the options point to.
  Pipeline(PipelineOptions options, std::vector<SpanSink*> all);
  ~Pipeline();

  // Events in order of time. False when the event lies after `to`: nothing more is needed.
  [[nodiscard]] bool push(const Event& event);
  // Call once, after the last event: the states of the vCPUs go on to `end` (nothing: the last
  // event), and what was complete but for a look ahead is handed out.
  void finish(std::optional<Timestamp> end = std::nullopt);

  // What a sink may ask, also while events still come.
  [[nodiscard]] const Names& names() const { return names_; }
  [[nodiscard]] const ExitTracker& exits() const { return tracker_; }
  [[nodiscard]] const GuestStacks& stacks() const { return stacks_; }
  [[nodiscard]] const Threads& threads() const { return threads_; }
  // What the scheduler did by the last event; none but for events of the scheduler.
  [[nodiscard]] ThreadChanges changes() const { return changes_; }
  // The threads that run vCPUs: those with exits, or, where none are recorded, with guest calls.
  [[nodiscard]] std::vector<VcpuTotalsOf> vcpus() const {
    return on_thread() ? stacks_.vcpus() : tracker_.vcpus();
  }
  [[nodiscard]] const Processes& processes() const { return processes_; }
  [[nodiscard]] const SymbolTable* symbols() const { return options_.symbols; }
  // Nothing where no sink selects them.
  [[nodiscard]] const RequestPath* request_path() const {
    return requests_ ? &*requests_ : nullptr;
  }
  [[nodiscard]] const RequestSpans* requests() const {
    return requests_ ? &requests_->spans() : nullptr;
  }
  [[nodiscard]] const VhostTracker& vhost() const { return vhost_; }
  [[nodiscard]] const IrqTracker* interrupts() const {
    return interrupts_ ? &*interrupts_ : nullptr;
  }
  [[nodiscard]] const HaltTracker* halts() const { return halts_ ? &*halts_ : nullptr; }
  [[nodiscard]] const WaitTracker* waits() const { return waits_ ? &*waits_ : nullptr; }
  // Nothing where neither page faults nor stalls are selected.
  [[nodiscard]] const PageFaults* faults() const { return faults_.get(); }
  [[nodiscard]] const HostRuns* host_runs() const { return runs_ ? &*runs_ : nullptr; }
  [[nodiscard]] const KernelTracker* kernel() const { return kernel_.get(); }
  [[nodiscard]] const StallTracker* stalls() const { return stalls_.get(); }
  [[nodiscard]] const GuestIntervals* guest_intervals() const {
    return guest_intervals_ ? &*guest_intervals_ : nullptr;
  }
  // Tells whether events of logs can be where the clocks' relation puts them.
  [[nodiscard]] const PlacementCheck& placement() const { return placement_; }
  // Of a kernel of the host, not of its programs.
  [[nodiscard]] bool is_of_hosts_kernel(const Event& event) const {
    const bool known = event.source < options_.roles.size();
    return !is_guest(event.machine) &&
           (!known || options_.roles[event.source] == Role::kHostKernel);
  }
  [[nodiscard]] bool has_guest_records() const { return has_guest_; }
  [[nodiscard]] bool counts_all() const { return !options_.threads; }
  [[nodiscard]] bool counts(ThreadId thread) const {
    return !options_.threads || options_.threads->contains(thread);
  }
  // The exit that the last event ended, or nullptr.
  [[nodiscard]] const ExitSpan* ended() const { return ended_; }
  // The QEMU event that the last event's marker is, or nullptr.
  [[nodiscard]] const VmmEvent* vmm_event() const { return tracker_.last_vmm_event(); }
  [[nodiscard]] std::optional<VcpuState> vcpu(ThreadId thread) const {
    return tracker_.state(thread);
  }
  [[nodiscard]] std::vector<OpenExit> open() const { return tracker_.open(); }
  // True if the exit's rip is 0 because its guest hides its registers, as SEV-ES, SNP and TDX have
  // it: no exit of its VM had another until now.
  [[nodiscard]] bool hides_rip(ThreadId thread, const ExitReason& reason, std::uint64_t rip) const;
  // The guest's stack when the exit came, with the function of its rip innermost where that is
  // known: a record's stamp has the error of its clock's alignment, the rip has none.
  [[nodiscard]] StackId stack_of(const ExitSpan& exit) const;

  // The first event of all, in the interval or before it: relative times count from it.
  [[nodiscard]] std::optional<Timestamp> first() const { return first_; }
  // The interval that was looked at: from the first event, or `from`, to the last, or `to`. Nothing
  // before the first event in it, and where nothing lies in it and no vCPU is known.
  [[nodiscard]] std::optional<Timestamp> begin() const { return begin_; }
  [[nodiscard]] Timestamp end() const { return end_; }
  // True if the user chose an interval.
  [[nodiscard]] bool is_window() const { return options_.from || options_.to; }

 private:
  [[nodiscard]] const std::vector<SpanSink*>& sinks(SpanClass one) const {
    return sinks_of_[static_cast<std::size_t>(std::countr_zero(static_cast<std::uint32_t>(one)))];
  }
  [[nodiscard]] bool push_carefully(const Event& event);
  [[nodiscard]] bool is_in_window(const Event& event, bool is_event);
  void begin_window();
  void end_window();
  void note_interval(Timestamp at) {
    if (!begin_) begin_ = carried_ ? from_ : at;
    begun_ = true;
    end_ = std::max(end_, at);
  }
  [[nodiscard]] bool is_of_guest(const Event& event) const;
  [[nodiscard]] bool on_thread() const { return options_.guest_runs == GuestRuns::kOnThread; }
  void on_guest(const Event& event);
  void tell_calls();
  void tell_states();
  void tell_unended();
  void on_host(const Event& event);
  void follow(const Event& event);
  void take(const ExitSpan& exit);
  void on_requests(const Event& event);
  void on_vhost(const Event& event, ThreadId process);
  void on_interrupts(const Event& event);
  // The process of a thread, and that whose work it does.
  struct Asked {
    ThreadId thread{-1}, process{}, worked_for{};
  };
  const Asked& asked_about(ThreadId thread) {
    if (asked_.thread != thread)
      asked_ = {thread, processes_.of(thread, {}), worked_for_.process(thread, processes_)};
    return asked_;
  }
  void on_waits(const Event& event);
  void on_guest_intervals(const Event& event);
  void tell_guest_intervals();
  void tell_stalls();
  void tell(const Event& event);
  void tell(const IrqSpan& interrupt, ThreadId process);

  PipelineOptions options_;
  // The sinks that select a class, by its bit.
  std::array<std::vector<SpanSink*>, std::numeric_limits<std::uint32_t>::digits> sinks_of_;
  SpanClass selected_ = SpanClass::kNone;
  mutable Names names_;
  VmmEventReader reader_;
  Processes processes_;
  ExitTracker tracker_;
  Threads threads_;
  ThreadChanges changes_;
  WorkedFor worked_for_;  // of threads that raise interrupts
  Asked asked_;           // last: events of one thread follow each other
  mutable GuestStacks stacks_;
  mutable std::set<ThreadId> rip_shown_;      // the processes that own tracker_.rip_shown()
  mutable std::size_t rip_looked_at_ = 0;     // of these threads
  mutable std::vector<NameId> symbol_names_;  // by symbol, made when first needed
  std::optional<RequestPath> requests_;
  std::vector<NameId> request_names_;     // by spec
  VhostTracker vhost_;                    // where requests are followed
  std::unique_ptr<SpanBuilder> builder_;  // where a sink selects spans
  std::optional<IrqTracker> interrupts_;
  std::optional<HostRuns> runs_;
  std::optional<HaltTracker> halts_;
  std::optional<WaitTracker> waits_;
  std::optional<GuestIntervals> guest_intervals_;
  std::unique_ptr<PageFaults> faults_;
  std::unique_ptr<StallTracker> stalls_;
  std::unique_ptr<KernelTracker> kernel_;
  PlacementCheck placement_;
  bool has_guest_ = false;
  bool follows_events_ = false;   // follow() has something to do
  bool exits_only_ = false;       // no sink selects more, but for losses
  bool hands_out_exits_ = false;  // take() does no more than that, without a guest's records
  bool begun_ = false;            // an event of the window came
  bool cut_ = false;              // the recording goes on after the window
  bool carried_ = false;          // the states of vCPUs, to the window's beginning
  const ExitSpan* ended_ = nullptr;
  mutable std::optional<StackId> stack_;  // of ended_, once somebody asked
  std::optional<Timestamp> first_, begin_;
  Timestamp end_, from_, to_;
};

}  // namespace trapline
