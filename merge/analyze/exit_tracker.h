// Cuts the events of vCPU threads into exit spans: docs/formats/report.md, "Exit model".
//
// State is per thread: a span goes on across CPU migration, and vCPU 0 of two QEMUs stay apart.
//
//                  kvm_exit                        kvm_entry / emit span
//   ┌─> in guest ────────────> in exit (kernel) ──────────────────────────> in guest
//   │                              │      ^
//   │          kvm_userspace_exit  │      │  ioctl KVM_RUN | reload | kvm_entry
//   │                              v      │
//   │                            in exit (user)
//   └── unknown: at the start, and after a loss that could hide one of the thread's events
//
//   Off the CPU, wherever in a span: runnable -> preempted; asleep -> blocked until it is woken, in
//   a halt halted. A switch in the guest ends the guest's run: the exit that it begins is named by
//   the next kvm_exit, which some kernels write after the thread was switched out. After a loss a
//   kvm_exit that follows a switch to the thread, without an entry between them, is such a one: its
//   beginning was lost.
//
//   exit by a halt   kernel │ polls, sleeps, wakes, sleeps │ preempted │ kernel
//                           └──────────── halted ──────────┘ the last wake-up
//
// Every nanosecond of a thread that runs a vCPU is in one State, from its creation or first event
// of KVM to its end: before its first entry it is offline; after a loss, or an event that does not
// fit, not seen.
//
// Guarantees: the parts of a span sum to its total; no span bridges a loss that could hide one of
// its events; what does not fit is counted. Every kvm_exit is a span or an UnendedExit: an
// exit_without_entry, a closed_by_loss or an exits_stopped; every kvm_entry ends a span or an
// exits_stopped, or is an entry_without_exit.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "merge/analyze/exit_model.h"
#include "merge/analyze/threads.h"
#include "merge/analyze/vmm/event_reader.h"
#include "merge/model/exit_span.h"
#include "merge/model/processes.h"
#include "merge/model/thread_table.h"

namespace trapline {

// What ExitTracker tells of threads that run vCPUs, beside their exits.
struct ExitCounters {
  std::uint64_t exits = 0;               // that began: each kvm_exit
  std::uint64_t exit_without_entry = 0;  // another kvm_exit or the recording's end came first
  std::uint64_t entry_without_exit = 0;
  std::uint64_t closed_by_loss = 0;    // open spans whose end may be among lost events
  std::uint64_t user_without_end = 0;  // user intervals that only kvm_entry ended
  std::uint64_t clock_went_back = 0;   // events of a thread stamped before its last one
  std::uint64_t vmm_events = 0;
  std::uint64_t vmm_events_in_exits = 0;
  std::uint64_t intervals_left_out = 0;  // beyond ExitTracker::kMostIntervals of an exit
  std::uint64_t threads_left_out = 0;    // kvm events of threads beyond the most that are followed
  // No spans: the vCPU was paused, went offline or ended in them.
  std::uint64_t exits_stopped = 0;
};

// What is known of a thread that runs a vCPU. Its time is the sum of its states; it begins with the
// thread's creation or its first event of KVM.
struct VcpuTotals {
  std::int32_t vcpu = kNoVcpu;
  std::uint16_t source = 0;
  std::uint64_t exits = 0;
  std::uint64_t guest_ns = 0;
  Parts parts{};
  std::uint64_t paused_ns = 0, offline_ns = 0, not_seen_ns = 0;
  // x86: exits with rip 0, and whether one had another: SEV-ES, SNP and TDX hide the registers.
  std::uint64_t rip_hidden = 0;
  bool rip_shown = false;
  Timestamp begin, end;  // end: once the thread or the recording ended
  // The state that was carried to the recording's end, and since when it, or the exit that it is
  // in, lasted.
  std::optional<State> open;
  std::uint64_t open_ns = 0;

  [[nodiscard]] std::uint64_t& of(State state) {
    if (state == State::kGuest) return guest_ns;
    if (state == State::kPaused) return paused_ns;
    if (state == State::kOffline) return offline_ns;
    if (state == State::kNotSeen) return not_seen_ns;
    return parts[static_cast<std::size_t>(state)];
  }
  [[nodiscard]] std::uint64_t time_ns() const {
    std::uint64_t sum = guest_ns + paused_ns + offline_ns + not_seen_ns;
    for (const std::uint64_t part : parts) sum += part;
    return sum;
  }
  // The exits and states of another vCPU as well.
  void add(const VcpuTotals& other) {
    exits += other.exits;
    guest_ns += other.guest_ns;
    for (std::size_t i = 0; i < kParts; ++i) parts[i] += other.parts[i];
    paused_ns += other.paused_ns;
    offline_ns += other.offline_ns;
    not_seen_ns += other.not_seen_ns;
  }
};

// The cost of exits, of the busy time: as far as they lie in the figures' time, whether they ended
// or not.
struct Overhead {
  std::uint64_t guest_ns = 0, exit_ns = 0, not_run_ns = 0;
  [[nodiscard]] std::uint64_t busy_ns() const { return guest_ns + exit_ns + not_run_ns; }
  void add(const VcpuTotals& totals) {
    guest_ns += totals.guest_ns;
    exit_ns += cost_ns(totals.parts);
    not_run_ns += totals.parts[static_cast<std::size_t>(Part::kPreempted)];
  }
};

// How often a QEMU event came, and how often inside an exit.
struct VmmEventCount {
  std::uint64_t count = 0;
  std::uint64_t in_exits = 0;
};

// What of an exit is kept beside its sums.
enum class Detail : std::uint8_t { kSums, kIntervals };

// An exit that began and of which no end is known.
struct UnendedExit {
  ExitSpan span;  // without handlers
  std::vector<PartInterval> intervals;
  State state = State::kNotSeen;  // that it is in
  // An open exit is told of that is no halt, and lasts longer than each of its reason that ended,
  // or that a guest does not come back from.
  bool is_notable = false;
};

// An exit that has not been handed out yet.
struct OpenExit {
  ThreadId thread{};
  std::int32_t vcpu = kNoVcpu;
  Timestamp begin;
  ExitReason reason;
  // Its end is known, and the next event of its thread hands it out (recordings without kvm_exit).
  std::optional<Timestamp> end;
};

// Where a thread that runs a vCPU is, as far as its last event tells.
struct VcpuState {
  enum class Where : std::uint8_t { kUnknown, kGuest, kKernel, kUser };
  Where where = Where::kUnknown;
  std::int32_t vcpu = kNoVcpu;
  ExitReason reason;                 // kKernel, kUser
  Timestamp begin;                   // of the guest's run, or of the exit
  Timestamp user_begin;              // of the last time in user space, 0 for none yet
  bool in_fault = false;             // kKernel: of a page fault
  std::optional<Timestamp> off_cpu;  // when the thread was last switched out
};

// The state that a vCPU has been in since its last event.
struct StateNow {
  State state = State::kNotSeen;
  std::int32_t vcpu = kNoVcpu;
  ExitReason reason;            // of the exit that it is in
  Timestamp since;              // when that exit, or the state, began
  std::uint64_t halted_ns = 0;  // of that exit so far
};

// A time that the guest ran: from kvm_entry to kvm_exit, or to where its thread was switched out.
struct GuestRun {
  ThreadId thread{};
  std::int32_t vcpu = kNoVcpu;
  Timestamp begin, end;
};

// A time that a vCPU spent in one state, outside of the exits and guest's runs that are handed out:
// it was not running, or an exit or a run was cut off.
struct StateRun {
  ThreadId thread{};
  State state = State::kNotSeen;
  Timestamp begin, end;
};

// A thread that runs a vCPU, and what it spent its time on.
struct VcpuTotalsOf {
  ThreadId thread{};
  VcpuTotals totals;
};

class ExitTracker {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16;
  // Intervals, and handlers, of one exit. What comes after is summed up, and counted.
  static constexpr std::size_t kMostIntervals = 1u << 15;

  // `reader` and `processes` are borrowed; `model` stays as it is. Without processes nothing tells
  // which vCPUs a VMM has stopped.
  ExitTracker(const ExitModel& model, VmmEventReader& reader, Detail detail = Detail::kSums,
              const Processes* processes = nullptr)
      : model_(model),
        reader_(&reader),
        processes_(processes),
        detail_(detail),
        waits_for_switch_(model.late_switches) {}

  // The span that the event completes, or nullptr; valid until the next call. `changes` are what
  // Threads makes of the event.
  [[nodiscard]] const ExitSpan* on(const Event& event, ThreadChanges changes) {
    pass();
    if (waits_for_switch_) [[unlikely]]
      look_for_switch(event, changes);
    if (changes.empty()) [[likely]]
      return on(event);
    for (const ThreadChange& change : changes) on(event, change);
    return nullptr;
  }
  // Once: the figures begin there. Each vCPU is in the state that earlier events left it in, and an
  // exit that began before is no span.
  void begin_at(Timestamp begin);
  // After the last event, once: the figures end then, and so does every state; the recording too
  // unless it is `cut`.
  void close(Timestamp end, bool cut = false);
  // After close(), until it returns nullptr: spans that were complete but for a look ahead. What is
  // still open is then counted.
  [[nodiscard]] const ExitSpan* finish();

  // Another event came that concerns no exit: what the last one told is past.
  void pass() {
    is_vmm_event_ = has_run_ = false;
    user_ended_.reset();
    if (!told_) [[likely]]
      return;
    told_ = false;
    runs_.clear();
    unended_.clear();
  }

  [[nodiscard]] const ExitModel& model() const { return model_; }
  [[nodiscard]] const ExitCounters& counters() const { return counters_; }
  // The states whose times the events tell, so far.
  [[nodiscard]] States known_states() const;
  // The threads that run vCPUs, in order of first sight; with what is open at `now`, which is no
  // earlier than the last event, or at close().
  [[nodiscard]] std::vector<VcpuTotalsOf> vcpus() const;
  [[nodiscard]] std::vector<VcpuTotalsOf> vcpus_at(Timestamp now) const;
  // The threads of which an exit had a rip that is not 0, in order of first sight.
  [[nodiscard]] const std::vector<ThreadId>& rip_shown() const { return rip_shown_; }
  // Whether a vCPU halted so far, before a window as well: then its guest does not idle unseen.
  [[nodiscard]] bool saw_halts() const { return saw_halts_; }
  // Whether a halt counts as a whole, its way in and out with it.
  [[nodiscard]] bool saw_whole_halts() const { return saw_whole_halts_; }
  // Whether kvm_entry is not recorded: exits of a thread came in a row, and nothing ended any.
  [[nodiscard]] bool lacks_entries() const {
    const bool alone = saw_exits_in_a_row_ || (closed_ && counters_.exits != 0);
    return alone && !saw_entry_ && !model_.from_userspace_exit;
  }
  // When sched_switch came first, where that was long after the first event: the time before is not
  // seen.
  [[nodiscard]] const std::optional<Timestamp>& switches_from() const { return switches_from_; }
  // True if a vCPU waited for a CPU in a halt: before a wake-up that was not its last, or polling.
  [[nodiscard]] bool saw_waits_in_halts() const { return saw_waits_in_halts_; }
  // Nothing for a thread without an event of KVM.
  [[nodiscard]] std::optional<VcpuState> state(ThreadId thread) const;
  [[nodiscard]] std::optional<StateNow> state_now(ThreadId thread) const;
  [[nodiscard]] std::vector<OpenExit> open() const;
  [[nodiscard]] std::optional<OpenExit> open(ThreadId thread) const;
  // The guest's run that the last event ended, or nullptr.
  [[nodiscard]] const GuestRun* guest_run() const { return has_run_ ? &run_ : nullptr; }
  // Other times that the last event settled (Detail::kIntervals).
  [[nodiscard]] std::span<const StateRun> state_runs() const { return runs_; }
  // The exits that it left without an end.
  [[nodiscard]] std::span<const UnendedExit> unended() const { return unended_; }
  [[nodiscard]] bool has_unended() const { return told_ && !unended_.empty(); }
  // When the time in user space began that the last event ended, where its end is an event of its
  // own (UserEnd::kIoctl, kReload).
  [[nodiscard]] std::optional<Timestamp> user_ended() const { return user_ended_; }
  // Indexed by NameId.
  [[nodiscard]] const std::vector<VmmEventCount>& vmm_events() const { return event_counts_; }
  // The QEMU event of the last Marker given to on(), or nullptr when that was none.
  [[nodiscard]] const VmmEvent* last_vmm_event() const {
    return is_vmm_event_ ? &vmm_event_ : nullptr;
  }

 private:
  // A memory region access inside a span, with the device's own events around it.
  struct Access {
    VmmEvent region;
    NameId before = kNoName, after = kNoName;
  };
  struct Thread {
    // kOffline: before its first entry. kLeft: an exit that has no kvm_exit yet. kEnded: fallback
    // only.
    enum class Phase : std::uint8_t { kUnknown, kOffline, kGone, kGuest, kLeft, kExit, kEnded };
    ThreadId id{};
    std::size_t index = 0;  // in threads_
    VcpuTotals totals;
    Phase phase = Phase::kUnknown;
    bool is_known = false;
    bool is_vcpu = false;  // it entered the guest or left it
    bool in_user = false, off_cpu = false, asleep = false;
    bool stopped = false;       // asleep: by a signal, or by its VMM
    bool vmm_stopped = false;   // its VMM has stopped it: it will sleep in user space
    bool goes_offline = false;  // in this exit
    bool was_stopped = false;   // in this exit it was paused or offline: it will be no span
    bool is_cut = false;        // this exit began before the figures do: it will be no span
    bool keeps = false;         // the intervals of this exit
    bool entered = false;       // ever, so that kvm_entry is recorded of it
    bool back = false;          // kUnknown: it was switched in, so it had left the guest before
    bool sealed = false;        // fallback: events were lost, so no later one is the span's detail
    std::uint8_t accesses = 0;
    std::uint32_t cpu = 0;
    Timestamp mark;  // up to where the open interval is accounted
    Timestamp last;  // of the thread's last event
    ExitSpan span;
    KvmDetail waiting = kNoDetail;  // fallback: what the next exit is about
    NameId device_event = kNoName, accelerator_event = kNoName, before_access = kNoName;
    std::array<Access, 8> access{};
    Timestamp user_begin;
    std::optional<Timestamp> off_since;
    // Of this exit; none is 0. From when on what KVM tells of a halt belongs to it; the beginning
    // of its halted time; the first sleep since user space; the end of its last sleep.
    Timestamp halts_from, halted_from, slept, woken;
    std::vector<PartInterval> intervals;  // Detail::kIntervals, or where they may have to be recut
    std::vector<HandlerEvent> handlers;
  };
  [[nodiscard]] static bool in_exit(const Thread& thread) {
    return thread.phase == Thread::Phase::kExit || thread.phase == Thread::Phase::kLeft;
  }
  // Nothing of it was seen since close_for_loss().
  [[nodiscard]] static bool is_closed_for_loss(const Thread& thread) {
    return thread.phase == Thread::Phase::kUnknown && thread.sealed &&
           thread.waiting.kind == DetailKind::kNone && !thread.off_cpu && !thread.in_user;
  }
  // Adds the time since the thread's last mark to the state that it was in.
  void account(Thread& thread, Timestamp at) {
    if (at > thread.mark && thread.phase != Thread::Phase::kEnded) add(thread, at);
  }
  void add(Thread& thread, Timestamp at);
  [[nodiscard]] State state_of(const Thread& thread) const;
  void tally(Thread& thread, State state, Timestamp begin, Timestamp end);
  void keep(Thread& thread, Part part, Timestamp at);
  void keep_from_now(Thread& thread, Timestamp at);
  // Nothing tells when the halt slept: it is all of the exit.
  [[nodiscard]] bool is_all_halted(const Thread& thread) const {
    return thread.span.halt && !model_.sched_switch && thread.halted_from == Timestamp();
  }
  void recut(Thread& thread, Timestamp begin, Timestamp end, State to);
  void fold(Thread& thread, std::optional<State> as = std::nullopt);
  void fold_cut(Thread& thread);
  bool leave_unended(Thread& thread, ExitSpan::End how = ExitSpan::End::kCut);
  void end_unended(Thread& thread, Timestamp at);
  void forget(Thread& thread, Timestamp at);
  void carry(Thread& thread, Timestamp end);
  void end_thread(Thread& thread, Timestamp at);
  [[nodiscard]] State open_state(const Thread& thread) const;
  // Every event of the thread itself comes by here: it shows where the thread runs, and that a loss
  // of this CPU may have hidden what it did before.
  void seen(Thread& thread, const Event& event) {
    if (event.at < thread.last || !hole_end_.empty()) [[unlikely]]
      look_for_loss(thread, event);
    thread.cpu = event.cpu;
    thread.last = std::max(thread.last, event.at);
  }
  void look_for_loss(Thread& thread, const Event& event);
  void runs(Thread& thread, Timestamp at);
  void close_for_loss(Thread& thread);
  void begin(Thread& thread, const Event& event);
  void name(Thread& thread, const Event& event, const ExitReason& reason, std::uint64_t rip);
  const ExitSpan* end_exit(Thread& thread);
  const ExitSpan* emit(Thread& thread);
  void end_guest_run(Thread& thread, Timestamp at);
  static void name_device(Thread& thread);
  static void name_mmio(ExitSpan& span);
  static void set_vcpu(Thread& thread, std::int32_t vcpu);
  static OpenExit open_exit(ThreadId thread, const Thread& state);
  Thread* known_thread(const Event& event);
  Thread* vcpu_thread(const Event& event);
  void on_exit(const Event& event, const KvmExit& exit);
  void on_nested(const Event& event, NestedStep step);
  const ExitSpan* on_entry(const Event& event, const KvmEntry& entry);
  const ExitSpan* on_userspace_exit(const Event& event, const KvmUserspaceExit& exit);
  void on_user_end(const Event& event, UserEnd by);
  void on_state_load(const Event& event, const KvmStateLoad& load);
  void on_irq(const Event& event, const KvmIrq& irq);
  const ExitSpan* on_detail(const Event& event, const KvmDetail& detail);
  const ExitSpan* on_fallback_detail(const Event& event, const KvmDetail& detail);
  void on_halt(const Event& event, const KvmVcpuWakeup& wakeup);
  void on_wfx(const Event& event, const KvmWfx& wfx);
  const ExitSpan* on(const Event& event);
  void on(const Event& event, const ThreadChange& change);
  void on_leave(Thread& thread, const Event& event, const ThreadChange& change);
  void on_run(Thread& thread, const Event& event);
  void on_new_thread(const Event& event, const NewThread& made);
  void on_wakeup(Thread& thread, Timestamp at);
  void on_marker(const Event& event, const Marker& marker);
  void on_vm_state(const Event& event);
  void note_vmm_event(Thread& thread) const;
  void on_lost(const Event& event, const Lost& lost);

  ExitModel model_;
  VmmEventReader* reader_;
  const Processes* processes_;
  Detail detail_;
  ThreadTable<Thread> threads_;
  ThreadTable<Timestamp> created_;  // when
  // In their order, as long as nothing else is known: markers of a VMM's state cost no other's.
  std::vector<ThreadId> process_of_;
  std::uint64_t processes_seen_ = 0;
  ExitCounters counters_;
  std::vector<VmmEventCount> event_counts_;
  std::vector<Timestamp> hole_end_;  // by CPU
  std::vector<ThreadId> back_;       // by CPU, once events were lost: who was switched in there
  // Threads of which nothing was seen since a loss that they were closed for: many losses in a row
  // cost them next to nothing.
  std::vector<bool> unseen_;
  Timestamp latest_hole_end_;
  VmmEvent vmm_event_;
  bool is_vmm_event_ = false, has_run_ = false, closed_ = false, is_cut_ = false;
  bool saw_halts_ = false, saw_whole_halts_ = false, saw_vm_state_ = false;
  // sched_switch is recorded and has not come yet; late_: long after the first vCPU's event.
  static constexpr std::uint64_t kLateSwitches = 10'000'000;
  bool waits_for_switch_ = false, late_ = false, saw_waits_in_halts_ = false;
  Timestamp first_;
  std::optional<Timestamp> switches_from_;
  void look_for_switch(const Event& event, ThreadChanges changes);
  bool saw_hypercall_ = false, saw_exits_in_a_row_ = false, saw_entry_ = false;
  Timestamp begin_;  // of begin_at()
  GuestRun run_;
  bool told_ = false;  // one of these is not empty
  std::vector<StateRun> runs_;
  std::vector<UnendedExit> unended_;
  // By reason: what is known of exits that ended. Those that share a place are taken for one.
  struct Kind {
    std::uint64_t longest = 0;  // of those that were no halts
    bool halts = false;         // KVM halted in one, whose reason is no halt
    bool lacks_entry = false;   // another exit followed one
  };
  static constexpr std::size_t kKinds = 1024;
  std::array<Kind, kKinds> kinds_{};
  [[nodiscard]] Kind& kind_of(const ExitReason& reason);
  std::vector<PartInterval> recut_;
  std::optional<Timestamp> user_ended_;
  ExitSpan done_;
  std::vector<PartInterval> done_intervals_;
  std::vector<HandlerEvent> done_handlers_;
  std::vector<ThreadId> rip_shown_;
  std::size_t finished_ = 0;  // threads that finish() has looked at
};

}  // namespace trapline
