// Divides the time of vCPU threads into exit spans: docs/formats/report.md, "Exit model".
//
// State is kept per thread: a span continues across CPU migration, and vCPU 0 of two QEMUs are
// different threads.
//
//                  kvm_exit                        kvm_entry / emit span
//   ┌─> in guest ────────────> in exit (kernel) ──────────────────────────> in guest
//   │                              │      ^
//   │          kvm_userspace_exit  │      │  ioctl KVM_RUN | reload | kvm_entry
//   │                              v      │
//   │                            in exit (user)
//   └── unknown: at the start, after a loss that could hide one of the thread's events, and after
//       the thread ran unseen, on a CPU that is not recorded
//
//   Off the CPU, anywhere in a span: a runnable thread is preempted, a sleeping one is blocked
//   until it is woken (in a halt, halted). A switch while in the guest ends the guest's run and
//   begins an exit. The next kvm_exit names that exit; some kernels write it after the thread was
//   switched out. After a loss, a kvm_exit that follows a switch to the thread without an entry
//   between them also names an exit that began earlier: the exit's beginning was lost.
//
//   exit by a halt   kernel │ polls, sleeps, wakes, sleeps │ preempted │ kernel
//                           └──────────── halted ──────────┘ the last wake-up
//
// Every nanosecond of a thread that runs a vCPU is in exactly one State, from the thread's creation
// or its first event of KVM to its end. The thread is offline before its first entry, and not seen
// after a loss or an event that does not fit.
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
#include <utility>
#include <vector>

#include "merge/analyze/exit_model.h"
#include "merge/analyze/threads.h"
#include "merge/analyze/vmm/event_reader.h"
#include "merge/model/exit_span.h"
#include "merge/model/processes.h"
#include "merge/model/thread_table.h"

namespace trapline {

// Counts over all threads that run vCPUs; vmm_events: over all threads.
struct ExitCounters {
  std::uint64_t exits = 0;               // exits that began: each kvm_exit
  std::uint64_t exit_without_entry = 0;  // another kvm_exit or the recording's end before kvm_entry
  std::uint64_t entry_without_exit = 0;
  std::uint64_t entry_after_loss = 0;  // of entry_without_exit: a loss may hide the exit
  std::uint64_t closed_by_loss = 0;    // open spans whose end may be among lost events
  std::uint64_t user_without_end = 0;  // user intervals that only kvm_entry ended
  std::uint64_t clock_went_back = 0;   // events with a time before their thread's last event
  std::uint64_t vmm_events = 0;
  std::uint64_t vmm_events_in_exits = 0;
  std::uint64_t intervals_left_out = 0;  // intervals beyond ExitTracker::kMostIntervals in an exit
  // KVM events of threads beyond ExitTracker::kMostThreads.
  std::uint64_t threads_left_out = 0;
  // Exits that are not spans: the vCPU was paused, went offline or ended in them.
  std::uint64_t exits_stopped = 0;
};

// The totals of a thread that runs a vCPU. Its time is the sum of its states and begins with the
// thread's creation or its first event of KVM.
struct VcpuTotals : GuestTime {
  std::int32_t vcpu = kNoVcpu;
  std::uint16_t source = 0;
  std::uint64_t exits = 0;
  std::uint64_t paused_ns = 0, offline_ns = 0, not_seen_ns = 0;
  std::uint64_t polled_ns = 0;  // part of the halted time in which the thread ran in KVM
  // x86: the number of exits with rip 0, and whether another rip was seen. SEV-ES, SNP and TDX hide
  // the registers.
  std::uint64_t rip_hidden = 0;
  bool rip_shown = false;
  Timestamp begin, end;  // `end` is set once the thread or the recording has ended
  // The state that was extended to the recording's end, and how long that state, or the exit that
  // it is in, had lasted by then.
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
    return total() + paused_ns + offline_ns + not_seen_ns;
  }
  // Adds the exits and states of another vCPU.
  void add(const VcpuTotals& other) {
    GuestTime::add(other);
    exits += other.exits;
    paused_ns += other.paused_ns;
    offline_ns += other.offline_ns;
    not_seen_ns += other.not_seen_ns;
  }
};

// The busy time and the cost of exits in it, within the time that the figures cover. Exits that did
// not end are included.
struct Overhead {
  std::uint64_t guest_ns = 0, exit_ns = 0, not_run_ns = 0;
  std::uint64_t blocked_ns = 0;  // part of exit_ns
  [[nodiscard]] std::uint64_t busy_ns() const { return guest_ns + exit_ns + not_run_ns; }
  void add(const VcpuTotals& totals) {
    guest_ns += totals.guest_ns;
    exit_ns += cost_ns(totals.parts);
    not_run_ns += totals.parts[static_cast<std::size_t>(Part::kPreempted)];
    blocked_ns += totals.parts[static_cast<std::size_t>(Part::kBlocked)];
  }
};

// How often a QEMU event occurred, and how often inside an exit.
struct VmmEventCount {
  std::uint64_t count = 0;
  std::uint64_t in_exits = 0;
};

// Says if the intervals of an exit's parts are kept, besides the sums of the parts.
enum class Detail : std::uint8_t { kSums, kIntervals };

// An exit that began and has no known end.
struct UnendedExit {
  ExitSpan span;  // without handlers
  std::vector<PartInterval> intervals;
  State state = State::kNotSeen;  // the state that the exit is in
  // An open exit is reported if it is not a halt and lasts longer than every ended exit of its
  // reason, or if it is one that a guest does not return from.
  bool is_notable = false;
};

// The position of a vCPU's thread after its last event: in the guest, the kernel or user space.
struct VcpuState {
  enum class Where : std::uint8_t { kUnknown, kGuest, kKernel, kUser };
  Where where = Where::kUnknown;
  ThreadId thread{};
  std::int32_t vcpu = kNoVcpu;
  std::optional<State> state;        // since the thread's last event; nullopt: the thread has ended
  ExitReason reason;                 // reason of the exit that the vCPU is in
  Timestamp begin;                   // when that exit, the guest's run or the state began
  std::uint64_t halted_ns = 0;       // halted time of that exit so far
  bool in_fault = false;             // for kKernel: in a page fault
  std::optional<Timestamp> off_cpu;  // when the thread was last switched out
  // Set if the exit's end is known and the thread's next event will return the exit (recordings
  // without kvm_exit).
  std::optional<Timestamp> end;
};

// A time in which the guest ran: from kvm_entry to kvm_exit, or until its thread was switched out.
struct GuestRun {
  ThreadId thread{};
  std::int32_t vcpu = kNoVcpu;
  Timestamp begin, end;
};

// A time of a vCPU in one state, outside the exits and guest runs that are returned: the vCPU was
// not running, or its exit or run was cut off.
struct StateRun {
  ThreadId thread{};
  State state = State::kNotSeen;
  Timestamp begin, end;
};

// A thread that runs a vCPU, with its totals.
struct VcpuTotalsOf {
  ThreadId thread{};
  VcpuTotals totals;
};

class ExitTracker {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16;
  // Limit for the intervals, and for the handlers, of one exit. Further ones are summed and
  // counted.
  static constexpr std::size_t kMostIntervals = 1u << 15;

  // Borrows `reader` and `processes`. Without processes, the vCPUs that a VMM stopped are not
  // known.
  ExitTracker(const ExitModel& model, VmmEventReader& reader, Detail detail = Detail::kSums,
              const Processes* processes = nullptr)
      : model_(model),
        reader_(&reader),
        processes_(processes),
        detail_(detail),
        waits_for_switch_(model.late_switches) {}

  // Returns the span that the event completes, or nullptr; valid until the next call. `changes` are
  // those that Threads found in the event.
  [[nodiscard]] const ExitSpan* on(const Event& event, ThreadChanges changes) {
    pass();
    if (waits_for_switch_) [[unlikely]]
      look_for_switch(event, changes);
    return changes.empty() ? on(event) : on_changes(event, changes);
  }
  // Makes the figures begin at this time; call it once. Each vCPU starts in the state that earlier
  // events left, and an exit that began before is not a span.
  void begin_at(Timestamp begin);
  // Makes the figures end at this time; call it once, after the last event up to then. What a vCPU
  // was doing then may show only later, by what it does next: settle() takes the events after
  // `end` for which awaits() is true.
  void end_at(Timestamp end);
  void settle(const Event& event, ThreadChanges changes);
  [[nodiscard]] bool awaits() const { return !open_.empty(); }
  // Ends the figures and every state at `end`; call it once, after the last event. `cut`: the
  // recording goes on after `end`, so an exit without an end counts as cut off, not as open.
  // `lacks_cpu`: some CPU is not recorded, so what was off its CPU may have run unseen.
  void close(Timestamp end, bool cut = false, bool lacks_cpu = false);
  // Returns, after close(), the remaining spans one by one, then nullptr: spans that only waited
  // for a further event. Exits that are still open are counted.
  [[nodiscard]] const ExitSpan* finish();

  // Clears the results of the last event; call it for an event that concerns no exit.
  void pass() {
    is_vmm_event_ = has_run_ = has_user_ended_ = false;
    if (told_) [[unlikely]]
      forget_news();
  }

  [[nodiscard]] const ExitModel& model() const { return model_; }
  [[nodiscard]] const ExitCounters& counters() const { return counters_; }
  // Returns the states whose times the events have shown so far.
  [[nodiscard]] States known_states() const;
  // Returns the threads that run vCPUs, in the order in which they were seen. Open states are
  // included after close(); before, only vcpus_at() includes them, up to `now`, which must not be
  // before the last event.
  [[nodiscard]] std::vector<VcpuTotalsOf> vcpus() const;
  [[nodiscard]] std::vector<VcpuTotalsOf> vcpus_at(Timestamp now) const;
  // Returns the threads with an exit whose rip is not 0, in the order in which they were seen.
  [[nodiscard]] const std::vector<ThreadId>& rip_shown() const { return rip_shown_; }
  // Returns whether a vCPU has halted so far, also before the time of the figures. If so, guests
  // exit when they idle, and idle time does not count as guest time.
  [[nodiscard]] bool saw_halts() const { return saw_halts_; }
  // Returns whether events of a nested guest were recorded so far.
  [[nodiscard]] bool saw_nested() const { return saw_nested_; }
  // Returns whether a halt's whole exit counted as halted, because nothing showed when it slept.
  [[nodiscard]] bool saw_whole_halts() const { return saw_whole_halts_; }
  // Returns whether vCPUs of several VMs whose processes are not known were seen.
  [[nodiscard]] bool several_unknown() const { return several_unknown_; }
  // Returns whether kvm_entry is not recorded: exits of a thread came in a row and nothing ended
  // them.
  [[nodiscard]] bool lacks_entries() const {
    const bool alone = saw_exits_in_a_row_ || (closed_ && counters_.exits != 0);
    return alone && !saw_entry_ && !model_.from_userspace_exit;
  }
  // Returns the time of the first sched_switch if it came long after the first event; the time
  // before is not seen.
  [[nodiscard]] const std::optional<Timestamp>& switches_from() const { return switches_from_; }
  // Returns whether the beginning of the recording, or all of it, is not seen for that reason.
  [[nodiscard]] bool lacks_switches() const { return late_ || switches_from_; }
  // Returns whether a vCPU waited for a CPU in a halt: before a wake-up that was not its last, or
  // while polling.
  [[nodiscard]] bool saw_waits_in_halts() const { return saw_waits_in_halts_; }
  // Returns whether the last event of a vCPU's thread was on this CPU, which it has not left.
  [[nodiscard]] bool is_on(std::uint32_t cpu) const {
    return std::ranges::any_of(threads_.entries(), [cpu](const auto& entry) {
      const Thread& thread = entry.state;
      return thread.cpu == cpu && !thread.off_cpu && thread.phase > Thread::Phase::kOffline;
    });
  }
  // Returns whether the thread had an event of KVM.
  [[nodiscard]] bool has(ThreadId thread) const { return threads_.find(thread) != nullptr; }
  // Returns the position of a vCPU's thread; nullopt if the thread runs no vCPU, as far as is
  // known.
  [[nodiscard]] std::optional<VcpuState> state(ThreadId thread) const;
  // Returns the vCPUs in an exit that on() has not yet returned as a finished span.
  [[nodiscard]] std::vector<VcpuState> open() const;
  // Returns the guest's run that the last event ended, or nullptr.
  [[nodiscard]] const GuestRun* guest_run() const { return has_run_ ? &run_ : nullptr; }
  // Returns the times in other states that the last event completed (only Detail::kIntervals).
  [[nodiscard]] std::span<const StateRun> state_runs() const { return runs_; }
  // Returns the exits that the last event left without an end.
  [[nodiscard]] std::span<const UnendedExit> unended() const { return unended_; }
  // Returns the vCPU's thread that ran unseen before the last event, on a CPU that is not recorded.
  [[nodiscard]] std::optional<ThreadId> hidden() const { return hidden_; }
  // Returns whether unended(), state_runs() or hidden() has any.
  [[nodiscard]] bool has_news() const { return told_; }
  // If the last event ended a time in user space, returns when that time began. Known only if an
  // event of its own marks the end (UserEnd::kIoctl, kReload).
  [[nodiscard]] std::optional<Timestamp> user_ended() const {
    return has_user_ended_ ? std::optional(user_ended_) : std::nullopt;
  }
  // Returns the counts of QEMU's events, indexed by NameId.
  [[nodiscard]] const std::vector<VmmEventCount>& vmm_events() const { return event_counts_; }
  // Returns the QEMU event of the last Marker given to on(), or nullptr if the marker was no event
  // of QEMU.
  [[nodiscard]] const VmmEvent* last_vmm_event() const {
    return is_vmm_event_ ? &vmm_event_ : nullptr;
  }

 private:
  // An access to a memory region inside a span, with the device's own events around it.
  struct Access {
    VmmEvent region;
    NameId before = kNoName, after = kNoName;
  };
  struct Thread {
    // kOffline: before its first entry. kGone: the thread ended. kLeft: switched out in the guest,
    // without a kvm_exit yet. kEnded (only without recorded kvm_exits): an exit that ended and may
    // still get its detail.
    enum class Phase : std::uint8_t { kUnknown, kOffline, kGone, kGuest, kLeft, kExit, kEnded };
    ThreadId id{};
    std::size_t index = 0;  // index in threads_
    VcpuTotals totals;
    Phase phase = Phase::kUnknown;
    bool is_vcpu = false;  // the thread has entered or left the guest
    // begin() resets the flags up to `sealed` for each exit. They are side by side, so that one
    // store does it.
    bool in_user = false, off_cpu = false, asleep = false;
    bool stopped = false;       // asleep because of a signal or its VMM
    bool goes_offline = false;  // the vCPU goes offline during this exit
    bool was_stopped = false;   // the vCPU was paused or offline in this exit, which is no span
    bool is_cut = false;        // this exit began before the figures do and will not be a span
    bool sealed = false;       // events were lost: no later one gives the detail of an earlier exit
    bool keeps = false;        // keeps the intervals of this exit
    bool vmm_stopped = false;  // the VMM stopped the vCPU, so the thread will sleep in user space
    bool entered = false;      // the thread entered the guest, so kvm_entry is recorded
    bool back = false;         // in kUnknown: switched in, so the thread had left the guest before
    bool queued = false;       // ready to run, in the queue of `cpu`
    bool may_hide = false;     // queued, and `cpu` may not be recorded
    std::uint8_t accesses = 0;
    std::uint32_t cpu = 0;  // of its last event or, where it is ready to run, of its queue
    Timestamp mark;         // the open interval is accounted up to here
    Timestamp last;         // time of the thread's last event
    ExitSpan span;
    KvmDetail waiting = kNoDetail;  // without kvm_exit: the detail of the next exit
    NameId device_event = kNoName, accelerator_event = kNoName, before_access = kNoName;
    std::array<Access, 8> access{};
    Timestamp user_begin;
    std::optional<Timestamp> off_since;
    // Times in this exit; 0: none. halts_from: from here on, reports of a halt belong to this exit;
    // halted_from: when its halted time began; slept: the first sleep since user space; woken: the
    // end of its last sleep.
    Timestamp halts_from, halted_from, slept, woken;
    std::vector<PartInterval> intervals;  // for Detail::kIntervals, or if they may have to be recut
    std::vector<HandlerEvent> handlers;
  };
  [[nodiscard]] static bool in_exit(const Thread& thread) {
    return thread.phase == Thread::Phase::kExit || thread.phase == Thread::Phase::kLeft;
  }
  // Adds the time since the thread's last mark to its state.
  void account(Thread& thread, Timestamp at) {
    if (at > thread.mark && thread.phase != Thread::Phase::kEnded) add(thread, at);
  }
  void add(Thread& thread, Timestamp at);
  [[nodiscard]] State state_of(const Thread& thread) const;
  void tally(Thread& thread, State state, Timestamp begin, Timestamp end);
  void keep(Thread& thread, Part part, Timestamp at);
  void keep_from_now(Thread& thread, Timestamp at);
  // Returns whether the whole exit counts as halted, because nothing shows when the halt slept.
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
  // Notes an event that shows the thread on the event's CPU. If that CPU has lost events since the
  // thread's last one, what the thread did before is not known.
  void seen(Thread& thread, const Event& event) {
    thread.cpu = event.cpu;
    if (event.at < thread.last || !hole_end_.empty()) [[unlikely]]
      look_for_loss(thread, event);
    else
      thread.last = event.at;
  }
  void look_for_loss(Thread& thread, const Event& event);
  void runs(Thread& thread, Timestamp at) {
    if (thread.off_cpu) comes_back(thread, at);
  }
  void comes_back(Thread& thread, Timestamp at);
  void close_for_loss(Thread& thread, std::uint64_t& counter);
  void close_as_hidden(Thread& thread, Timestamp at);
  [[nodiscard]] bool knows_switches() const { return model_.sched_switch && !late_; }
  void begin(Thread& thread, const Event& event);
  void name(Thread& thread, const Event& event, const ExitReason& reason, std::uint64_t rip);
  const ExitSpan* end_exit(Thread& thread);
  const ExitSpan* emit(Thread& thread);
  void end_guest_run(Thread& thread, Timestamp at);
  static void name_device(Thread& thread);
  static void name_mmio(ExitSpan& span);
  void set_vcpu(Thread& thread, std::int32_t vcpu) {
    if (vcpu != kNoVcpu && thread.totals.vcpu != vcpu) [[unlikely]]
      learn_vcpu(thread, vcpu);
  }
  void learn_vcpu(Thread& thread, std::int32_t vcpu);
  void has_started(Thread& thread, Timestamp at);
  // Returns the phase of a thread without an event since it was made: a loss may hide its first
  // entry.
  [[nodiscard]] Thread::Phase phase_since(Timestamp created) const {
    return latest_hole_end_ > created ? Thread::Phase::kUnknown : Thread::Phase::kOffline;
  }
  Thread* new_thread(const Event& event);
  Thread* known_thread(const Event& event);
  Thread* vcpu_thread(const Event& event);
  void on_user_end(const Event& event, UserEnd by);
  // Take a payload; those that may complete a span return it, like on().
  const ExitSpan* take(const Event& event, const KvmExit& exit);
  const ExitSpan* take(const Event& event, const KvmEntry& entry);
  const ExitSpan* take(const Event& event, const KvmUserspaceExit& exit);
  void take(const Event& event, const KvmStateLoad& load);
  void take(const Event& event, const IoctlEnter& ioctl);
  const ExitSpan* take(const Event& event, const KvmDetail& detail);
  void take(const Event& event, const KvmIrq& irq);
  void take(const Event& event, const KvmNested& nested);
  void take(const Event& event, const KvmVcpuWakeup& wakeup);
  void take(const Event& event, const KvmWfx& wfx);
  void take(const Event& event, const NewThread& made);
  const ExitSpan* take(const Event& event, const Marker& marker);
  void take(const Event&, const auto&) {}
  const ExitSpan* on_fallback_detail(const Event& event, const KvmDetail& detail);
  void forget_news();
  const ExitSpan* on(const Event& event);
  const ExitSpan* on_changes(const Event& event, ThreadChanges changes);
  void on(const Event& event, const ThreadChange& change);
  void on_leave(Thread& thread, const Event& event, const ThreadChange& change);
  void remember(std::uint32_t cpu, ThreadId thread);
  void on_run(Thread& thread, const Event& event, bool lacks_cpu);
  void on_wakeup(Thread& thread, const ThreadChange& change, Timestamp at);
  void on_move(Thread& thread, const ThreadChange& change, Timestamp at);
  static void queue(Thread& thread, const ThreadChange& change);
  void on_vm_state(const Event& event);
  void note_vmm_event(Thread& thread) const;
  void on_lost(const ThreadChange& loss);

  ExitModel model_;
  VmmEventReader* reader_;
  const Processes* processes_;
  Detail detail_;
  ThreadTable<Thread> threads_;
  ThreadTable<Timestamp> created_;  // when the thread was created (task_newtask)
  // Cache of the threads' processes, by Thread::index, for markers that tell a VMM's state.
  std::vector<ThreadId> process_of_;
  std::uint64_t processes_seen_ = 0;
  ExitCounters counters_;
  std::vector<VmmEventCount> event_counts_;
  std::vector<Timestamp> hole_end_;  // by CPU: the end of its latest loss
  std::vector<ThreadId> back_;       // by CPU: the thread switched in after events were lost
  // By Thread::index: whether no event showed the thread since a loss closed its exit. The next
  // loss skips such threads, so that many losses in a row cost almost nothing.
  std::vector<bool> unseen_;
  Timestamp latest_hole_end_;
  VmmEvent vmm_event_;
  bool is_vmm_event_ = false, has_run_ = false, has_user_ended_ = false;
  bool closed_ = false, is_cut_ = false, lacks_cpu_ = false;
  bool saw_halts_ = false, saw_whole_halts_ = false, saw_vm_state_ = false, saw_nested_ = false;
  // In ns: if sched_switch is recorded and none comes for this long after the first vCPU's event,
  // late_ is set until one comes.
  static constexpr std::uint64_t kLateSwitches = 10'000'000;
  bool waits_for_switch_ = false, late_ = false, saw_waits_in_halts_ = false;
  Timestamp first_;
  std::optional<Timestamp> switches_from_;
  void look_for_switch(const Event& event, ThreadChanges changes);
  bool saw_hypercall_ = false, saw_exits_in_a_row_ = false, saw_entry_ = false;
  bool several_unknown_ = false;
  Timestamp begin_;  // the time given to begin_at()
  // Set by end_at(): end_ is its time, open_ the exits and guest runs whose end awaits() is for,
  // and counted_ the counts up to then.
  struct Open {
    ThreadId thread{};
    Timestamp start;
    bool in_guest = false;
  };
  std::optional<Timestamp> end_;
  std::vector<Open> open_;
  std::pair<ExitCounters, std::vector<VmmEventCount>> counted_;
  GuestRun run_;
  bool told_ = false;  // runs_ or unended_ is not empty, or hidden_ is set
  std::optional<ThreadId> hidden_;
  std::vector<StateRun> runs_;
  std::vector<UnendedExit> unended_;
  // Facts about earlier exits of one reason. The table has kKinds entries; reasons that fall on the
  // same entry share it.
  struct Kind {
    std::uint64_t longest = 0;  // ns, of exits that were not halts
    bool halts = false;         // KVM halted in an exit whose reason is not a halt
    bool lacks_entry = false;   // another exit followed one without an entry
  };
  static constexpr std::size_t kKinds = 1024;
  std::array<Kind, kKinds> kinds_{};
  [[nodiscard]] Kind& kind_of(const ExitReason& reason);
  std::vector<PartInterval> recut_;
  Timestamp user_ended_;  // if has_user_ended_
  ExitSpan done_;
  ExitSpan none_;  // copied, not a constant, which the compiler clears 8 bytes at a time
  std::vector<PartInterval> done_intervals_;
  std::vector<HandlerEvent> done_handlers_;
  std::vector<ThreadId> rip_shown_;
  std::size_t finished_ = 0;  // number of threads that finish() has handled
};

}  // namespace trapline
