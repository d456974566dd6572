// Turns the events of one timeline into spans, for any number of sinks.
//
//   events ──> exits ──────┬─> exit(), request(), … ──> sinks
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
#include "merge/analyze/request_path.h"
#include "merge/analyze/span_sink.h"
#include "merge/analyze/thread_lives.h"
#include "merge/analyze/threads.h"
#include "merge/analyze/vhost_tracker.h"
#include "merge/model/loss_counts.h"
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
  const tracetool::Declarations* declared = nullptr;  // the VMM's events, or null; borrowed
  const SymbolTable* symbols = nullptr;               // the guest's symbols, or null; borrowed
  Processes processes;                                // processes known beforehand
  // The requests to follow; empty: those that QEMU's own devices trace.
  std::vector<RequestSpec> requests;
  // The intervals of the guest to follow, if a sink selects them, and how their events are read.
  std::optional<GuestSpanSpec> guest_intervals;
  GuestIntervals::TextOf event_name, event_text;
  // Returns the name of the function of a HostStep::kFunctionBegin or kFunctionEnd.
  std::function<std::string(const Event&)> kernel_function;
  // In ns: stalls at least this long are passed on, if a sink selects them.
  std::uint64_t stalls_ns = 10'000'000;
  // Passed on to PageFaults: whether pages of files are recorded, and the swap devices.
  bool records_file_pages = false;
  std::set<std::uint32_t> swaps;
  // The role of each source of the timeline; sources beyond the list record the host's kernel.
  std::vector<Role> roles;
  // By source: the error bound of its clock's alignment, which PlacementCheck checks; nullopt: not
  // checked.
  std::vector<std::optional<std::uint64_t>> placement_errors;
  // The window of time that the figures cover. Earlier events only give the states at its
  // beginning. Relative times count from the first event.
  std::optional<TimeSpec> from, to;
  // The vCPU threads whose exits are passed on; nullopt: all.
  std::optional<std::set<ThreadId>> threads;
  // Called once for each exit of `threads`: returns whether the sinks' exit() gets the exit.
  // Empty: they get all. The states of the vCPUs include all exits.
  std::function<bool(const ExitSpan&, const Pipeline&)> wants;
};

class Pipeline final : public EventSink {
 public:
  // The sinks are borrowed, and so is everything that the options point to.
  Pipeline(PipelineOptions options, std::vector<SpanSink*> all);
  ~Pipeline();

  // Takes events in order of time. False if no further event is needed: the event is after `to`,
  // and what the threads did at `to` is known or cannot be found out any more.
  [[nodiscard]] bool push(const Event& event) override;
  // Extends the states of the vCPUs to `end` (nullopt: the last event) and passes on what only
  // waited for a further event. Call it once, after the last event.
  void finish(std::optional<Timestamp> end = std::nullopt);

  // A sink may call the following at any time.
  [[nodiscard]] const Names& names() const { return names_; }
  [[nodiscard]] const ExitTracker& exits() const { return tracker_; }
  [[nodiscard]] const GuestStacks& stacks() const { return stacks_; }
  [[nodiscard]] const Threads& threads() const { return threads_; }
  // Returns the last thread so far that has the kernel's id.
  [[nodiscard]] ThreadId now(std::int32_t tid) const { return lives_.now(ThreadId{tid}); }
  // Returns what the scheduler did by the last event; empty if it was not an event of the
  // scheduler.
  [[nodiscard]] ThreadChanges changes() const { return changes_; }
  // Returns the threads that run vCPUs: those with exits or, if no exits are recorded, with guest
  // calls.
  [[nodiscard]] std::vector<VcpuTotalsOf> vcpus() const {
    return on_thread() ? stacks_.vcpus() : tracker_.vcpus();
  }
  [[nodiscard]] const Processes& processes() const { return processes_; }
  // Returns the thread's process. All threads without a known process count as one process, 0, as
  // long as no two of them run vCPUs with the same number; from then on each counts as its own.
  [[nodiscard]] ThreadId process_of(ThreadId thread) const {
    return processes_.of(thread, tracker_.several_unknown() ? thread : ThreadId{});
  }
  [[nodiscard]] const SymbolTable* symbols() const { return options_.symbols; }
  // Returns null if no sink selects requests.
  [[nodiscard]] const RequestPath* request_path() const {
    return requests_ ? &*requests_ : nullptr;
  }
  [[nodiscard]] const RequestSpans* requests() const {
    return requests_ ? &requests_->spans() : nullptr;
  }
  // Returns the name of the requests of the spec, which is its index in RequestSpans::specs().
  [[nodiscard]] NameId request_name(std::size_t spec) const { return request_names_[spec]; }
  [[nodiscard]] const VhostTracker& vhost() const { return vhost_; }
  [[nodiscard]] const IrqTracker* interrupts() const {
    return interrupts_ ? &*interrupts_ : nullptr;
  }
  [[nodiscard]] const HaltTracker* halts() const { return halts_ ? &*halts_ : nullptr; }
  [[nodiscard]] const WaitTracker* waits() const { return waits_ ? &*waits_ : nullptr; }
  // Returns null if neither page faults nor stalls are selected.
  [[nodiscard]] const PageFaults* faults() const { return faults_.get(); }
  [[nodiscard]] const HostRuns* host_runs() const { return runs_ ? &*runs_ : nullptr; }
  [[nodiscard]] const KernelTracker* kernel() const { return kernel_.get(); }
  [[nodiscard]] const StallTracker* stalls() const { return stalls_.get(); }
  [[nodiscard]] const GuestIntervals* guest_intervals() const {
    return guest_intervals_ ? &*guest_intervals_ : nullptr;
  }
  // Returns the check of whether logs' events can be where their clocks' alignment places them.
  [[nodiscard]] const PlacementCheck& placement() const { return placement_; }
  // Returns whether the event is from a kernel of the host, not from its programs.
  [[nodiscard]] bool is_of_hosts_kernel(const Event& event) const {
    return !is_guest(event.machine) && is_hosts_kernel(event.source);
  }
  // Returns whether the source records a kernel of the host.
  [[nodiscard]] bool is_hosts_kernel(std::size_t source) const {
    return source >= options_.roles.size() || options_.roles[source] == Role::kHostKernel;
  }
  [[nodiscard]] bool has_guest_records() const { return has_guest_; }
  [[nodiscard]] bool counts_all() const { return !options_.threads; }
  [[nodiscard]] bool counts(ThreadId thread) const {
    return !options_.threads || options_.threads->contains(thread);
  }
  // Returns the exit that the last event ended, or nullptr.
  [[nodiscard]] const ExitSpan* ended() const { return ended_; }
  // Returns the QEMU event in the last event's marker, or nullptr.
  [[nodiscard]] const VmmEvent* vmm_event() const { return tracker_.last_vmm_event(); }
  [[nodiscard]] std::optional<VcpuState> vcpu(ThreadId thread) const {
    return tracker_.state(thread);
  }
  [[nodiscard]] std::vector<VcpuState> open() const { return tracker_.open(); }
  // Returns whether the exit's rip is 0 because its guest hides its registers, as SEV-ES, SNP and
  // TDX do: no exit of its VM has had another rip so far.
  [[nodiscard]] bool hides_rip(ThreadId thread, const ExitReason& reason, std::uint64_t rip) const;
  // Returns the guest's stack at the exit, with the function of its rip innermost if that is known:
  // the time of a record has the error of its clock's alignment, the rip has none.
  [[nodiscard]] StackId stack_of(const ExitSpan& exit) const;

  // Returns the time of the first event at all, in the window or before; relative times count from
  // it.
  [[nodiscard]] std::optional<Timestamp> first() const { return first_; }
  // Returns the analysed interval: from the first event, or `from`, to the last event, or `to`.
  // Nullopt before the first event in it, and if it is empty and no vCPU is known.
  [[nodiscard]] std::optional<Timestamp> begin() const { return begin_; }
  [[nodiscard]] Timestamp end() const { return end_; }
  // Returns the losses in the analysed interval, those in a guest's recording left out.
  [[nodiscard]] const LossCounts& losses() const { return losses_; }
  // Returns whether the user chose a window.
  [[nodiscard]] bool is_window() const { return options_.from || options_.to; }

 private:
  [[nodiscard]] const std::vector<SpanSink*>& sinks(SpanClass one) const {
    return sinks_of_[static_cast<std::size_t>(std::countr_zero(static_cast<std::uint32_t>(one)))];
  }
  bool push_any(const Event& event);
  bool push_changes(const Event& event);
  [[nodiscard]] bool push_carefully(const Event& event);
  [[nodiscard]] bool settle(const Event& event);
  [[nodiscard]] bool is_in_window(const Event& event, bool is_event);
  void tell_loss(const Event& event);
  void begin_window();
  void end_window();
  void note_interval(Timestamp at) {
    if (!begin_) begin_ = carried_ ? from_ : at;
    usual_ = kUsual;
    end_ = std::max(end_, at);
  }
  // Returns whether the sinks take no more of the host's events than exits and the runs of CPUs.
  [[nodiscard]] bool is_plain() const {
    return steps_.empty() && !has_guest_ && lives_.empty() && counts_all() && !options_.wants;
  }
  [[nodiscard]] bool is_of_guest(const Event& event) const;
  [[nodiscard]] bool on_thread() const { return !options_.model.has_exits(); }
  void on_guest(const Event& event);
  void tell_calls();
  void tell_states();
  void tell_unended();
  void tell_news();
  void on_host(const Event& event, ThreadChanges changes);
  void take_steps(const Event& event);
  void plan();
  void tell_exit();
  void take(const ExitSpan& exit);
  void on_requests(const Event& event);
  void on_vhost(const Event& event);
  void on_interrupts(const Event& event);
  // The process of a thread, and the process that the thread works for.
  struct Owners {
    ThreadId thread{-1}, process{}, worked_for{};
    bool several = false;  // ExitTracker::several_unknown()
  };
  const Owners& owners_of(ThreadId thread) {
    const bool several = tracker_.several_unknown();
    if (owners_.thread == thread && owners_.several == several) return owners_;
    const ThreadId worked_for = worked_for_.process(thread, processes_);
    const bool is_alone = several && worked_for == ThreadId{};
    return owners_ = {thread, process_of(thread), is_alone ? thread : worked_for, several};
  }
  void on_waits(const Event& event);
  [[nodiscard]] bool is_birth(const Event& event) const {
    return std::holds_alternative<NewThread>(event.payload) && !is_guest(event.machine);
  }
  [[nodiscard]] bool is_seen(ThreadId id) const;
  [[nodiscard]] const Event& born(const Event& event);
  void begin_life(ThreadId thread);
  void on_new(const Event& event, const NewThread& made);
  void tell_guest_intervals();
  void tell_stalls();
  void tell(const Event& event);
  void tell(IrqSpan interrupt, ThreadId process);

  PipelineOptions options_;
  // For each bit of a class, the sinks that select the class.
  std::array<std::vector<SpanSink*>, std::numeric_limits<std::uint32_t>::digits> sinks_of_;
  SpanClass selected_ = SpanClass::kNone;
  mutable Names names_;
  VmmEventReader reader_;
  Processes processes_;
  ExitTracker tracker_;
  ThreadLives lives_;
  Threads threads_;
  ThreadChanges changes_;
  WorkedFor worked_for_;  // for threads that raise interrupts
  Owners owners_;         // cache of owners_of(), as consecutive events are often of one thread
  mutable GuestStacks stacks_;
  mutable std::set<ThreadId> rip_shown_;      // the processes of tracker_.rip_shown()
  mutable std::size_t rip_looked_at_ = 0;     // number of tracker_.rip_shown() in rip_shown_
  mutable std::vector<NameId> symbol_names_;  // by symbol, made on first use
  std::optional<RequestPath> requests_;
  std::vector<NameId> request_names_;     // by spec
  VhostTracker vhost_;                    // used if requests are followed
  std::optional<IrqTracker> interrupts_;  // also set if requests are followed
  std::optional<HostRuns> runs_;
  std::optional<HaltTracker> halts_;
  std::optional<WaitTracker> waits_;
  std::optional<GuestIntervals> guest_intervals_;
  std::unique_ptr<PageFaults> faults_;
  std::unique_ptr<StallTracker> stalls_;
  std::unique_ptr<KernelTracker> kernel_;
  PlacementCheck placement_;
  bool has_guest_ = false;
  // The steps that follow tracker_'s for an event of the host, in their order, and which of them,
  // as bits, an event needs: by its payload; if it changes a thread; if it ends an exit.
  using Step = void (*)(Pipeline&, const Event&);
  std::vector<Step> steps_;
  std::array<std::uint32_t, std::variant_size_v<Payload>> steps_of_{};
  std::uint32_t steps_of_changes_ = 0, steps_of_exits_ = 0;
  // The payloads, as bits, of nearly all events: some tracker needs them, and they neither begin
  // nor end anything but an exit. usual_ is 0 until an event of the window came.
  static constexpr std::uint32_t kUsual = ~(payload_bit<Other>() | payload_bit<Lost>() |
                                            payload_bit<GuestCall>() | payload_bit<NewThread>());
  std::uint32_t usual_ = 0;
  // The payloads of usual_ whose events push() passes on by itself; none unless is_plain().
  std::uint32_t plain_ = 0;
  bool cut_ = false;      // the recording goes on after the window
  bool carried_ = false;  // the states of vCPUs were carried to the window's beginning
  const ExitSpan* ended_ = nullptr;
  mutable std::optional<StackId> stack_;  // stack of ended_, set on first use
  LossCounts losses_;
  std::vector<Event> lost_first_;  // losses before the first event, which resolves the window
  std::optional<Timestamp> first_, begin_;
  Timestamp end_, from_, to_;
};

}  // namespace trapline
