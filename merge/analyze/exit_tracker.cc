#include "merge/analyze/exit_tracker.h"

#include <iterator>
#include <span>
#include <tuple>
#include <utility>

namespace trapline {
namespace {

constexpr std::uint64_t kPsciCpuOff = 0x84000002;

}  // namespace

void ExitTracker::look_for_loss(Thread& thread, const Event& event) {
  if (event.at < thread.last) ++counters_.clock_went_back;
  if (thread.index < unseen_.size()) unseen_[thread.index] = false;
  const Timestamp last = std::exchange(thread.last, std::max(thread.last, event.at));
  if (event.cpu >= hole_end_.size() || hole_end_[event.cpu] <= last) return;
  account(thread, last);
  close_for_loss(thread, counters_.closed_by_loss);
}

// Notes that the thread is on a CPU: it was switched in, or wrote an event that the scheduler does
// not write on its behalf. (Other events prove nothing: arm64 saves a thread's timers after its
// sched_switch.)
void ExitTracker::comes_back(Thread& thread, Timestamp at) {
  account(thread, at);
  if (thread.asleep) thread.woken = at;
  thread.off_cpu = thread.asleep = thread.stopped = thread.may_hide = false;
}

// Ends the thread's exit, if it is in one, without a known end, and counts it: its events after the
// time that was accounted may be lost, so its phase is not known.
void ExitTracker::close_for_loss(Thread& thread, std::uint64_t& counter) {
  if (leave_unended(thread)) ++counter;
  if (in_exit(thread)) fold(thread);
  // `back`: the thread's next kvm_exit belongs to an exit that began before the loss, as a thread
  // that was switched out in the guest may write its kvm_exit afterwards.
  thread.back &= thread.phase == Thread::Phase::kUnknown;
  thread.back |= thread.phase == Thread::Phase::kLeft;
  // Keep a completed exit, but do not use events after the loss for its detail.
  if (thread.phase != Thread::Phase::kEnded && thread.phase != Thread::Phase::kGone)
    thread.phase = Thread::Phase::kUnknown;
  thread.sealed = true;
  thread.waiting = kNoDetail;
  thread.off_cpu = thread.asleep = thread.stopped = thread.in_user = false;
}

// Sets the vCPU number of a thread. If another thread has the same number, and neither thread's
// process is known, the two belong to two VMs.
void ExitTracker::learn_vcpu(Thread& thread, std::int32_t vcpu) {
  thread.totals.vcpu = vcpu;
  const auto unknown = [this](ThreadId id) {
    return processes_ != nullptr && !processes_->knows(id);
  };
  // QEMU's main thread, too, has events with the number of a vCPU that it makes.
  if (several_unknown_ || !thread.is_vcpu || !unknown(thread.id)) return;
  several_unknown_ = std::ranges::any_of(threads_.entries(), [&](const auto& entry) {
    const Thread& other = entry.state;
    return other.id != thread.id && other.is_vcpu && other.totals.vcpu == vcpu &&
           other.phase != Thread::Phase::kGone && unknown(other.id);
  });
}

// Makes the state of a thread at its first event of KVM; nullptr if there is no room.
ExitTracker::Thread* ExitTracker::new_thread(const Event& event) {
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr) {
    ++counters_.threads_left_out;
    return nullptr;
  }
  const Timestamp* created = created_.find(event.thread);
  thread->index = threads_.entries().size() - 1;
  thread->id = event.thread;
  thread->last = created ? *created : event.at;
  thread->phase = phase_since(thread->last);
  thread->totals.begin = thread->mark = std::max(thread->last, begin_);
  thread->back = event.cpu < back_.size() && back_[event.cpu] == event.thread;
  return thread;
}

// Returns the state of the event's thread.
inline ExitTracker::Thread* ExitTracker::known_thread(const Event& event) {
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr) [[unlikely]]
    thread = new_thread(event);
  if (thread == nullptr) return nullptr;
  thread->totals.source = event.source;
  seen(*thread, event);
  runs(*thread, event.at);
  return thread;
}

// Does what known_thread() does, for an event that only a vCPU's thread has.
inline ExitTracker::Thread* ExitTracker::vcpu_thread(const Event& event) {
  Thread* thread = known_thread(event);
  if (thread == nullptr) return nullptr;
  thread->is_vcpu = true;
  if (model_.from_userspace_exit) has_started(*thread, event.at);
  return thread;
}

// Ends the offline time of a vCPU before its first entry, because it has an event that only a
// running vCPU has.
inline void ExitTracker::has_started(Thread& thread, Timestamp at) {
  if (thread.phase != Thread::Phase::kOffline) return;
  account(thread, at);
  thread.phase = Thread::Phase::kUnknown;
}

// Begins an exit; name() sets its reason.
inline void ExitTracker::begin(Thread& thread, const Event& event) {
  thread.in_user = thread.off_cpu = thread.asleep = thread.stopped = thread.sealed = false;
  thread.goes_offline = thread.was_stopped = thread.is_cut = false;
  thread.keeps = detail_ == Detail::kIntervals;
  thread.halts_from = thread.halted_from = thread.slept = thread.woken = {};
  thread.accesses = 0;
  thread.device_event = thread.accelerator_event = thread.before_access = kNoName;
  thread.mark = event.at;
  thread.span = none_;
  thread.span.start = event.at;
  thread.span.thread = thread.id;
  thread.span.cpu = event.cpu;
  thread.span.source = event.source;
  thread.user_begin = {};
  thread.intervals.clear();
  thread.handlers.clear();
}

inline void ExitTracker::name(Thread& thread, const Event& event, const ExitReason& reason,
                              std::uint64_t rip) {
  thread.phase = Thread::Phase::kExit;
  thread.span.reason = reason;
  thread.span.rip = rip;
  if (rip != 0) {
    if (!thread.totals.rip_shown) rip_shown_.push_back(thread.id);
    thread.totals.rip_shown = true;
  } else if (may_hide_rip(reason)) {
    ++thread.totals.rip_hidden;
  }
  thread.span.halt = is_halt(reason);
  if (!thread.span.halt) return;
  saw_halts_ = true;
  thread.keeps = true;
  thread.halts_from = event.at;
}

// forget_news(), look_for_switch() and on_changes() are not inlined, as Pipeline::push() would save
// registers for them at each event.
[[gnu::noinline]] void ExitTracker::forget_news() {
  told_ = false;
  hidden_.reset();
  runs_.clear();
  unended_.clear();
}

// Finds the first sched_switch: if any is recorded, a thread's states are known only from then on.
[[gnu::noinline]] void ExitTracker::look_for_switch(const Event& event, ThreadChanges changes) {
  if (first_ == Timestamp() && !threads_.entries().empty()) first_ = event.at;
  const Timestamp latest(first_.ns() + kLateSwitches);
  const bool comes = std::ranges::any_of(changes, &ThreadChange::runs);
  if (late_ ? !comes : first_ == Timestamp() || event.at <= latest) {
    waits_for_switch_ = !comes;
    return;
  }
  for (auto& entry : threads_.entries()) account(entry.state, late_ ? event.at : latest);
  if (late_) switches_from_ = event.at;
  late_ = !late_ && !comes;
  waits_for_switch_ = !comes;
}

inline void ExitTracker::end_guest_run(Thread& thread, Timestamp at) {
  if (late_) return account(thread, at);
  thread.totals.guest_ns += elapsed(thread.mark, at);
  has_run_ = true;
  run_ = {thread.id, thread.totals.vcpu, thread.mark, at};
  thread.mark = std::max(thread.mark, at);
}

const ExitSpan* ExitTracker::take(const Event& event, const KvmExit& exit) {
  Thread* thread = vcpu_thread(event);
  if (thread == nullptr) return nullptr;
  set_vcpu(*thread, exit.vcpu);
  if (thread->phase == Thread::Phase::kGuest) {
    end_guest_run(*thread, event.at);
    begin(*thread, event);
  } else if (thread->phase == Thread::Phase::kLeft) {
    if (thread->is_cut) ++counters_.exit_without_entry;
  } else if (thread->back && (thread->phase == Thread::Phase::kUnknown ||
                              (thread->phase == Thread::Phase::kOffline && !hole_end_.empty()))) {
    account(*thread, event.at);
    const Thread::Phase before = thread->phase;
    begin(*thread, event);
    name(*thread, event, {exit.reason, exit.isa, exit.exception_class}, exit.rip);
    (void)leave_unended(*thread);
    thread->phase = before;
    ++counters_.closed_by_loss;
    return nullptr;
  } else {
    saw_exits_in_a_row_ |= thread->phase == Thread::Phase::kExit;
    // The thread's entry was not recorded, so it is not known since when the thread was in the
    // guest.
    if (thread->phase == Thread::Phase::kOffline) thread->phase = Thread::Phase::kUnknown;
    end_unended(*thread, event.at);
    begin(*thread, event);
  }
  name(*thread, event, {exit.reason, exit.isa, exit.exception_class}, exit.rip);
  if (exit.fault_address != KvmExit::kNoAddress) {
    thread->span.detail = {exit.fault_address, 0, DetailKind::kPageFault, trapline::Access::kNone,
                           false};
  }
  return nullptr;
}

// Sets an exit's level by its first kvm_nested_* event: an exit that enters the nested guest may
// have to leave it again at once, which adds further events.
void ExitTracker::take(const Event& event, const KvmNested& nested) {
  const NestedStep step = nested.step;
  saw_nested_ = true;
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr || thread->phase != Thread::Phase::kExit) return;
  NestedLevel& level = thread->span.nested;
  if (level == NestedLevel::kGuest) {
    constexpr NestedLevel kFirst[] = {NestedLevel::kGuestEnters, NestedLevel::kNested,
                                      NestedLevel::kNestedPassedOn};
    level = kFirst[static_cast<std::size_t>(step)];
  } else if (level == NestedLevel::kNested && step == NestedStep::kPassOn) {
    level = NestedLevel::kNestedPassedOn;
  }
  if (level == NestedLevel::kNestedPassedOn) thread->span.halt = false;
  // KVM may enter the nested guest in the HLT state, so this exit may turn out to be a halt.
  if (level == NestedLevel::kGuestEnters) keep_from_now(*thread, event.at);
}

const ExitSpan* ExitTracker::take(const Event& event, const KvmEntry& entry) {
  Thread* thread = vcpu_thread(event);
  if (thread == nullptr) return nullptr;
  set_vcpu(*thread, entry.vcpu);
  saw_entry_ = thread->entered = true;
  if (model_.from_userspace_exit) return nullptr;
  const ExitSpan* span = nullptr;
  if (thread->phase == Thread::Phase::kExit) {
    if (thread->in_user && model_.user_end != UserEnd::kEntry) ++counters_.user_without_end;
    account(*thread, event.at);
    span = end_exit(*thread);
  } else {
    ++counters_.entry_without_exit;
    if (std::exchange(thread->sealed, false)) ++counters_.entry_after_loss;
    const bool fits = thread->phase != Thread::Phase::kGuest && !in_exit(*thread);
    fits ? account(*thread, event.at) : forget(*thread, event.at);
  }
  thread->phase = Thread::Phase::kGuest;
  thread->mark = event.at;
  return span;
}

const ExitSpan* ExitTracker::take(const Event& event, const KvmUserspaceExit& exit) {
  if (!model_.from_userspace_exit) {
    Thread* thread = threads_.find(event.thread);
    if (thread == nullptr && created_.find(event.thread) != nullptr) thread = known_thread(event);
    if (thread == nullptr) return nullptr;
    seen(*thread, event);
    runs(*thread, event.at);
    if (exit.error >= 0) has_started(*thread, event.at);
    if (thread->phase != Thread::Phase::kExit) return nullptr;
    account(*thread, event.at);
    // x86: KVM_RUN waited for SIPI (-EAGAIN).
    constexpr std::int32_t kTryAgain = -11;
    if (exit.error == kTryAgain && thread->slept != Timestamp())
      recut(*thread, thread->slept, thread->woken, State::kOffline);
    thread->in_user = true;
    thread->user_begin = event.at;
    thread->span.userspace_reason = exit.reason;
    if (thread->span.reason.isa == kIsaRiscv) name_mmio(thread->span);
    return nullptr;
  }
  Thread* thread = vcpu_thread(event);
  if (thread == nullptr) return nullptr;
  const ExitSpan* previous = nullptr;
  if (thread->phase == Thread::Phase::kEnded) {
    done_ = *emit(*thread);  // a copy, as the next exit overwrites the span at once
    previous = &done_;
  }
  end_unended(*thread, event.at);
  begin(*thread, event);
  name(*thread, event, {exit.reason, ExitReason::kIsaUserspace, 0}, 0);
  thread->in_user = true;
  thread->user_begin = event.at;
  thread->span.userspace_reason = exit.reason;
  thread->span.detail = std::exchange(thread->waiting, kNoDetail);
  // Without durations, the span is a point in time, and later events may still give its detail.
  if (!model_.durations()) {
    thread->phase = Thread::Phase::kEnded;
  }
  return previous;
}

void ExitTracker::on_user_end(const Event& event, UserEnd by) {
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr) {
    // The thread may run a vCPU that waits to be started.
    if (!model_.from_userspace_exit) (void)known_thread(event);
    return;
  }
  seen(*thread, event);
  if (by != model_.user_end || thread->phase != Thread::Phase::kExit || !thread->in_user) return;
  account(*thread, event.at);
  thread->in_user = false;
  thread->slept = {};
  user_ended_ = thread->user_begin;
  has_user_ended_ = true;
  if (!model_.from_userspace_exit) return;
  if (thread->is_cut || thread->was_stopped || end_) {
    if (thread->was_stopped && !thread->is_cut && !end_) ++counters_.exits_stopped;
    fold_cut(*thread);
  } else {
    thread->phase = Thread::Phase::kEnded;
  }
}

const ExitSpan* ExitTracker::take(const Event& event, const KvmDetail& detail) {
  if (model_.from_userspace_exit) return on_fallback_detail(event, detail);
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr && created_.find(event.thread) != nullptr) thread = known_thread(event);
  if (thread == nullptr) return nullptr;
  seen(*thread, event);
  has_started(*thread, event.at);
  if (thread->phase == Thread::Phase::kExit && detail.kind < thread->span.detail.kind) {
    thread->span.detail = detail;
    if (detail.kind == DetailKind::kHypercall) {
      saw_hypercall_ = true;
      if (detail.value == kPsciCpuOff) thread->goes_offline = thread->span.reason.isa == kIsaArm64;
    }
  }
  return nullptr;
}

// Takes a detail in a recording without kvm_exit. The event of a write, or of a read that is not
// answered yet, comes before the kvm_userspace_exit of its exit; the event of an answered read
// comes after the kvm_userspace_exit.
const ExitSpan* ExitTracker::on_fallback_detail(const Event& event, const KvmDetail& detail) {
  if (detail.kind > DetailKind::kMmio) return nullptr;
  Thread* thread = vcpu_thread(event);
  if (thread == nullptr) return nullptr;
  if (detail.access == trapline::Access::kWrite || detail.unsatisfied) {
    thread->waiting = detail;
    return thread->phase == Thread::Phase::kEnded ? emit(*thread) : nullptr;
  }
  if (thread->phase != Thread::Phase::kEnded) return nullptr;
  if (thread->span.detail.kind == DetailKind::kNone && !thread->sealed)
    thread->span.detail = detail;
  return emit(*thread);
}

inline const ExitSpan* ExitTracker::end_exit(Thread& thread) {
  if (!thread.is_cut && !thread.was_stopped) return emit(thread);
  ++(thread.is_cut ? counters_.entry_without_exit : counters_.exits_stopped);
  fold_cut(thread);
  return nullptr;
}

namespace {

// Returns whether the vCPU can only run again after a reset (linux/kvm.h): unknown, fail_entry,
// shutdown, internal error.
bool is_fatal(std::uint32_t userspace_reason) {
  return userspace_reason == 0 || userspace_reason == 8 || userspace_reason == 9 ||
         userspace_reason == 17;
}

}  // namespace

inline ExitTracker::Kind& ExitTracker::kind_of(const ExitReason& reason) {
  constexpr unsigned kClassAt = 4;
  return kinds_[(reason.reason ^ std::uint32_t{reason.exception_class} << kClassAt) % kKinds];
}

// Adds the thread's open exit to unended_, as one without a known end. Returns false if the thread
// is in no exit, if its kvm_exit has not come yet, or if the exit began before the time of the
// figures.
bool ExitTracker::leave_unended(Thread& thread, ExitSpan::End how) {
  if (thread.phase != Thread::Phase::kExit || thread.is_cut) return false;
  name_device(thread);
  ++thread.totals.exits;
  ++counters_.exits;
  told_ = true;
  UnendedExit& exit = unended_.emplace_back();
  exit.span = thread.span;
  if (detail_ == Detail::kIntervals) exit.intervals = thread.intervals;
  exit.span.intervals = exit.intervals;
  exit.span.end = std::max(thread.mark, thread.span.start);
  exit.span.vcpu = thread.totals.vcpu;
  exit.span.ended = how;
  exit.state = open_state(thread);
  exit.is_notable = how == ExitSpan::End::kOpen && !thread.span.halt &&
                    (exit.span.total() > kind_of(thread.span.reason).longest ||
                     is_fatal(thread.span.userspace_reason));
  return true;
}

// Ends the exit because the thread did something that it does not do in an exit.
void ExitTracker::end_unended(Thread& thread, Timestamp at) {
  if (thread.phase != Thread::Phase::kExit) return account(thread, at);
  kind_of(thread.span.reason).lacks_entry = true;
  forget(thread, at);
  if (leave_unended(thread)) ++counters_.exit_without_entry;
}

// Completes a span whose end is known; the span is valid until the thread's next exit begins.
inline const ExitSpan* ExitTracker::emit(Thread& thread) {
  name_device(thread);
  if (is_all_halted(thread)) [[unlikely]] {
    saw_whole_halts_ = true;
    recut(thread, thread.span.start, thread.mark, State::kHalted);
  }
  thread.phase = Thread::Phase::kUnknown;
  thread.span.end = thread.mark;
  thread.span.vcpu = thread.totals.vcpu;
  VcpuTotals& totals = thread.totals;
  ++totals.exits;
  Kind& kind = kind_of(thread.span.reason);
  if (!thread.span.halt)
    kind.longest = std::max(kind.longest, thread.span.total());
  else
    kind.halts |= !is_halt(thread.span.reason);
  for (std::size_t i = 0; i < kParts; ++i) totals.parts[i] += thread.span.parts[i];
  ++counters_.exits;
  if (detail_ == Detail::kIntervals) {
    done_intervals_.swap(thread.intervals);
    done_handlers_.swap(thread.handlers);
    thread.span.intervals = done_intervals_;
    thread.span.handlers = done_handlers_;
  }
  return &thread.span;
}

const ExitSpan* ExitTracker::take(const Event& event, const Marker& marker) {
  is_vmm_event_ = reader_->read(marker.text, vmm_event_);
  const ExitSpan* previous = nullptr;
  if (model_.from_vmm && is_vmm_event_ && vmm_event_.kind == VmmEvent::Kind::kRunExit)
    previous = take(event, KvmUserspaceExit{static_cast<std::uint32_t>(vmm_event_.number), 0});
  Thread* thread = threads_.find(event.thread);
  if (thread != nullptr) {
    seen(*thread, event);
    runs(*thread, event.at);
  }
  if (!is_vmm_event_) return nullptr;
  ++counters_.vmm_events;
  if (vmm_event_.kind == VmmEventKind::kVmState) [[unlikely]]
    on_vm_state(event);
  if (vmm_event_.name >= event_counts_.size()) event_counts_.resize(vmm_event_.name + 1);
  VmmEventCount& count = event_counts_[vmm_event_.name];
  ++count.count;
  if (thread == nullptr) return nullptr;
  set_vcpu(*thread, vmm_event_.vcpu);
  const bool inside =
      thread->phase == Thread::Phase::kExit && (thread->in_user || !model_.userspace_exits);
  if (!inside) return previous;
  ++count.in_exits;
  ++counters_.vmm_events_in_exits;
  ++thread->span.vmm_events;
  if (detail_ == Detail::kIntervals && thread->handlers.size() < kMostIntervals) {
    thread->handlers.push_back({event.at, vmm_event_.name, vmm_event_.region,
                                vmm_event_.kind == VmmEvent::Kind::kRegionRead});
  }
  note_vmm_event(*thread);
  if (model_.from_vmm && vmm_event_.kind == VmmEvent::Kind::kVcpuIoctl &&
      vmm_event_.number == kKvmRun)
    on_user_end(event, UserEnd::kIoctl);
  return previous;
}

inline void ExitTracker::take(const Event& event, const KvmStateLoad& load) {
  if (Thread* thread = threads_.find(event.thread)) set_vcpu(*thread, load.vcpu);
  on_user_end(event, UserEnd::kReload);
}

inline void ExitTracker::take(const Event& event, const KvmIrq& irq) {
  if (irq.step != IrqStep::kInject) return;
  if (Thread* thread = threads_.find(event.thread)) thread->span.injected = irq.vector;
}

inline void ExitTracker::take(const Event& event, const IoctlEnter& ioctl) {
  if (ioctl.command == kKvmRun) on_user_end(event, UserEnd::kIoctl);
}

// A table of the functions that take each type of payload. std::visit would call one function more.
const ExitSpan* ExitTracker::on(const Event& event) {
  using Take = const ExitSpan*(ExitTracker&, const Event&);
  static constexpr auto kTakes = []<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::array<Take*, sizeof...(kIndex)>{
        [](ExitTracker& to, const Event& of) -> const ExitSpan* {
          const auto& payload = *std::get_if<kIndex>(&of.payload);
          if constexpr (!std::is_void_v<decltype(to.take(of, payload))>) {
            return to.take(of, payload);
          } else {
            to.take(of, payload);
            return nullptr;
          }
        }...};
  }
  (std::make_index_sequence<std::variant_size_v<Payload>>());
  return kTakes[event.payload.index()](*this, event);
}

// The following functions are queries between two events and at the end; none runs for each event.

std::vector<VcpuState> ExitTracker::open() const {
  std::vector<VcpuState> exits;
  for (const auto& [id, thread] : threads_.entries())
    if (thread.is_vcpu && thread.phase >= Thread::Phase::kExit) exits.push_back(*state(id));
  return exits;
}

std::vector<VcpuTotalsOf> ExitTracker::vcpus() const {
  std::vector<VcpuTotalsOf> vcpus;
  for (const auto& [thread, state] : threads_.entries()) {
    if (state.is_vcpu) vcpus.push_back({thread, state.totals});
  }
  return vcpus;
}

std::vector<VcpuTotalsOf> ExitTracker::vcpus_at(Timestamp now) const {
  std::vector<VcpuTotalsOf> vcpus = this->vcpus();
  if (closed_) return vcpus;
  for (auto& [id, totals] : vcpus) {
    const Thread& thread = *threads_.find(id);
    if (thread.phase == Thread::Phase::kGone) continue;
    const bool halted = in_exit(thread) && is_all_halted(thread);
    totals.of(open_state(thread)) += elapsed(thread.mark, now);
    if (!in_exit(thread) && thread.phase != Thread::Phase::kEnded) continue;
    for (std::size_t i = 0; i < kParts; ++i) {
      const State state = halted ? State::kHalted : static_cast<State>(i);
      totals.of(state) += thread.span.parts[i];
    }
  }
  return vcpus;
}

// Offline time shows on arm64 only by PSCI's call, on RISC-V not at all, on x86 by the result of
// KVM_RUN. Paused time is certain to show only if the VMM's event for it is traced.
States ExitTracker::known_states() const {
  States known = lacks_entries() ? States() : model_.known_states();
  if (!known.any() || !model_.sched_switch) return known;
  known.set(static_cast<std::size_t>(State::kPaused), saw_vm_state_);
  bool offline = model_.userspace_exits && !model_.from_userspace_exit;
  for (const auto& [thread, state] : threads_.entries()) {
    if (state.span.reason.isa == kIsaRiscv) offline = false;
    if (state.span.reason.isa == kIsaArm64) offline = saw_hypercall_;
  }
  known.set(static_cast<std::size_t>(State::kOffline), offline);
  return known;
}

std::optional<VcpuState> ExitTracker::state(ThreadId id) const {
  using Where = VcpuState::Where;
  const Thread* thread = threads_.find(id);
  if (thread == nullptr || !thread->is_vcpu) return std::nullopt;
  VcpuState result;
  result.thread = id;
  result.vcpu = thread->totals.vcpu;
  result.begin = thread->mark;
  result.off_cpu = thread->off_since;
  const bool ended = thread->phase == Thread::Phase::kEnded;
  if (thread->phase != Thread::Phase::kGone) result.state = open_state(*thread);
  if (thread->phase == Thread::Phase::kGuest) result.where = Where::kGuest;
  if (in_exit(*thread)) result.where = thread->in_user ? Where::kUser : Where::kKernel;
  if (ended) result.end = thread->mark;
  if (!ended && !in_exit(*thread)) return result;
  result.begin = thread->span.start;
  result.reason = thread->span.reason;
  result.halted_ns = thread->span.parts[static_cast<std::size_t>(Part::kHalted)];
  result.in_fault =
      result.where == Where::kKernel && thread->span.detail.kind == DetailKind::kPageFault;
  return result;
}

const ExitSpan* ExitTracker::finish() {
  while (finished_ < threads_.entries().size()) {
    Thread& thread = threads_.entries()[finished_++].state;
    if (thread.phase == Thread::Phase::kEnded) return emit(thread);
  }
  return nullptr;
}

// The states of a vCPU's thread: the effect of the scheduler and of halts on them, and the time of
// exits that are not spans.

namespace {

std::uint64_t& part(Parts& parts, Part which) { return parts[static_cast<std::size_t>(which)]; }

}  // namespace

// Returns the state that the thread is in. The time since Thread::mark will count for this state;
// the time up to the mark has been counted.
inline State ExitTracker::state_of(const Thread& thread) const {
  if (late_ && (in_exit(thread) || thread.phase == Thread::Phase::kGuest)) return State::kNotSeen;
  if (in_exit(thread)) {
    if (!thread.off_cpu) return thread.in_user ? State::kUser : State::kKernel;
    if (!thread.asleep) return State::kPreempted;
    if (thread.stopped) return State::kPaused;
    if (thread.goes_offline) return State::kOffline;
    return thread.span.halt ? State::kHalted : State::kBlocked;
  }
  if (thread.phase == Thread::Phase::kGuest) return State::kGuest;
  if (thread.phase == Thread::Phase::kOffline)
    return thread.stopped ? State::kPaused : State::kOffline;
  return State::kNotSeen;
}

inline void ExitTracker::add(Thread& thread, Timestamp at) {
  if (thread.phase == Thread::Phase::kGone) [[unlikely]]
    return;  // the thread's time has ended
  const State state = state_of(thread);
  if (state <= State::kHalted) {
    const auto which = static_cast<Part>(state);
    part(thread.span.parts, which) += elapsed(thread.mark, at);
    if (thread.keeps) keep(thread, which, at);
  } else {
    thread.was_stopped |= in_exit(thread);
    tally(thread, state, thread.mark, at);
  }
  thread.mark = at;
}

void ExitTracker::tally(Thread& thread, State state, Timestamp begin, Timestamp end) {
  if (end <= begin) return;
  thread.totals.of(state) += elapsed(begin, end);
  if (detail_ != Detail::kIntervals) return;
  told_ = true;
  runs_.push_back({thread.id, state, begin, end});
}

// Adds the interval up to `at`, or extends the last interval if it is of the same part.
void ExitTracker::keep(Thread& thread, Part which, Timestamp at) {
  std::vector<PartInterval>& intervals = thread.intervals;
  if (!intervals.empty() && intervals.back().part == which && intervals.back().end == thread.mark) {
    intervals.back().end = at;
  } else if (intervals.size() < kMostIntervals) {
    intervals.push_back({which, thread.mark, at});
  } else {
    ++counters_.intervals_left_out;
  }
}

// Keeps the intervals from now on: the exit may turn out to be a halt, whose time is recut.
void ExitTracker::keep_from_now(Thread& thread, Timestamp at) {
  thread.keeps = true;
  if (thread.halts_from == Timestamp()) thread.halts_from = at;
}

// Changes the state of an exit's time between `begin` and `end` to halted or offline. Time without
// a kept interval stays as it is.
void ExitTracker::recut(Thread& thread, Timestamp begin, Timestamp end, State to) {
  std::vector<PartInterval>& intervals = thread.intervals;
  const auto first = std::ranges::upper_bound(intervals, begin, {}, &PartInterval::end);
  const auto last = std::ranges::lower_bound(first, intervals.end(), end, {}, &PartInterval::begin);
  recut_.clear();
  const auto put = [&](Part which, Timestamp from, Timestamp until) {
    if (until <= from) return;
    const bool goes_on =
        !recut_.empty() && recut_.back().part == which && recut_.back().end == from;
    goes_on ? void(recut_.back().end = until) : recut_.push_back({which, from, until});
  };
  for (const PartInterval& piece : std::span(first, last)) {
    const Timestamp from = std::clamp(begin, piece.begin, piece.end);
    const Timestamp until = std::clamp(end, from, piece.end);
    put(piece.part, piece.begin, from);
    part(thread.span.parts, piece.part) -= elapsed(from, until);
    saw_waits_in_halts_ |= piece.part == Part::kPreempted && until > from;
    if (to == State::kHalted) {
      part(thread.span.parts, Part::kHalted) += elapsed(from, until);
      if (piece.part == Part::kKernel) thread.totals.polled_ns += elapsed(from, until);
      put(Part::kHalted, from, until);
    } else {
      thread.was_stopped |= until > from;
      tally(thread, to, from, until);
    }
    put(piece.part, until, piece.end);
  }
  if (thread.totals.open && begin < thread.mark && end >= thread.mark) thread.totals.open = to;
  // Keep the later intervals in place if possible: one exit may have many halts and many intervals,
  // and moving them at each halt would be slow.
  const auto places = std::min<std::ptrdiff_t>(last - first, std::ssize(recut_));
  const auto done = std::copy_n(recut_.begin(), places, first);
  if (done != last)
    intervals.erase(done, last);
  else
    intervals.insert(last, recut_.begin() + places, recut_.end());
}

// Ends a halt: the vCPU runs again after KVM polled, or after its thread slept.
void ExitTracker::take(const Event& event, const KvmVcpuWakeup& wakeup) {
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr) return;
  seen(*thread, event);
  runs(*thread, event.at);
  if (thread->phase != Thread::Phase::kExit || thread->halts_from == Timestamp()) return;
  account(*thread, event.at);
  const bool slept = thread->woken > thread->halts_from;
  if (model_.cycles && !slept) return;  // wakeup.ns is not in cycles
  Timestamp begin = thread->halts_from;
  if (!model_.cycles) {
    const Timestamp woken(event.at.ns() - std::min(wakeup.ns, event.at.ns()));
    begin = std::max(begin, woken);
  } else if (thread->halted_from != Timestamp()) {
    begin = thread->halted_from;
  }
  const Timestamp end = wakeup.waited && slept && model_.sched_switch ? thread->woken : event.at;
  if (thread->halted_from != Timestamp()) begin = std::min(begin, thread->halted_from);
  thread->span.halt = true;
  saw_halts_ = true;
  thread->halted_from = begin;
  recut(*thread, begin, end, State::kHalted);
}

void ExitTracker::take(const Event& event, const KvmWfx& wfx) {
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr) return;
  seen(*thread, event);
  if (wfx.is_wfe && thread->phase == Thread::Phase::kExit) thread->span.halt = false;
}

// Adds the known time of an exit that does not become a span to the thread's totals: each part as
// the state of the same name or, with `as`, all of it as that state. If `as` is kOffline, halted
// time stays halted.
void ExitTracker::fold(Thread& thread, std::optional<State> as) {
  const auto state_of = [&](std::size_t part) {
    const auto state = static_cast<State>(part);
    return as == State::kOffline && state == State::kHalted ? state : as.value_or(state);
  };
  for (std::size_t i = 0; i < kParts; ++i) thread.totals.of(state_of(i)) += thread.span.parts[i];
  if (detail_ == Detail::kIntervals) {
    for (const PartInterval& piece : thread.intervals) {
      const State state = state_of(static_cast<std::size_t>(piece.part));
      told_ = true;
      runs_.push_back({thread.id, state, piece.begin, piece.end});
    }
  }
  if (as && thread.totals.open && thread.totals.open != State::kHalted) thread.totals.open = as;
  thread.span.parts = {};
  thread.intervals.clear();
}

// Ends an exit that does not become a span (Thread::is_cut, was_stopped). Its known time counts all
// the same.
void ExitTracker::fold_cut(Thread& thread) {
  if (is_all_halted(thread)) recut(thread, thread.span.start, thread.mark, State::kHalted);
  (void)leave_unended(thread);
  fold(thread);
  thread.phase = Thread::Phase::kUnknown;
}

// Counts the time up to `at` as not seen, because an event does not fit: the thread left or entered
// the guest at an unknown time.
void ExitTracker::forget(Thread& thread, Timestamp at) {
  if (in_exit(thread)) fold(thread, State::kNotSeen);
  if (thread.totals.open) thread.totals.open = State::kNotSeen;
  tally(thread, State::kNotSeen, thread.mark, at);
  thread.mark = std::max(thread.mark, at);
}

// Returns the state that the thread's time up to now counts for if nothing follows.
State ExitTracker::open_state(const Thread& thread) const {
  if (thread.phase == Thread::Phase::kEnded) return State::kNotSeen;
  return in_exit(thread) && is_all_halted(thread) ? State::kHalted : state_of(thread);
}

// Ends the thread. Its last exit counts as offline time: the VM was switched off, or the vCPU was
// removed.
void ExitTracker::end_thread(Thread& thread, Timestamp at) {
  if (in_exit(thread)) {
    fold(thread, State::kOffline);
    if (leave_unended(thread)) ++counters_.exits_stopped;
  } else {  // only kEnded and kGone have time that was not counted yet
    tally(thread, State::kNotSeen, std::max(thread.mark, thread.totals.end), at);
  }
  thread.totals.end = std::max(thread.mark, at);
  if (thread.phase != Thread::Phase::kEnded) thread.phase = Thread::Phase::kGone;
}

// Extends the thread's state to `end`, where the recording or the thread ends.
void ExitTracker::carry(Thread& thread, Timestamp end) {
  if (thread.may_hide || (lacks_cpu_ && thread.off_cpu)) close_as_hidden(thread, end);
  if (!thread.totals.open) thread.totals.open = open_state(thread);
  thread.totals.open_ns = 0;
  if (in_exit(thread)) {
    // The vCPU may be in the guest again, since kvm_entry is not recorded.
    const bool may_have_ended = !model_.from_userspace_exit &&
                                (!thread.entered || kind_of(thread.span.reason).lacks_entry) &&
                                !thread.off_cpu && !thread.in_user;
    thread.totals.open_ns = elapsed(thread.span.start, end);
    if (may_have_ended) {
      thread.totals.open = State::kNotSeen;
      forget(thread, end);
    }
    account(thread, end);
    // KVM reports a halt only when it ends. An open exit is a halt if others of its reason were.
    if (kind_of(thread.span.reason).halts && thread.asleep && !thread.in_user && thread.off_since) {
      thread.span.halt = true;
      thread.totals.open = State::kHalted;
      recut(thread, *thread.off_since, end, State::kHalted);
    }
    if (is_all_halted(thread)) {
      thread.totals.open = State::kHalted;
      recut(thread, thread.span.start, thread.mark, State::kHalted);
    }
    const bool is_open = !is_cut_ && !may_have_ended;
    if (leave_unended(thread, is_open ? ExitSpan::End::kOpen : ExitSpan::End::kCut))
      ++counters_.exit_without_entry;
    fold(thread);
  } else {
    const Timestamp since = std::max(thread.mark, thread.totals.end);
    thread.totals.open_ns = elapsed(since, end);
    tally(thread, open_state(thread), since, end);
    // In phase kEnded, the mark is the end of a span that waits to be returned.
    if (thread.phase != Thread::Phase::kEnded) thread.mark = std::max(thread.mark, end);
  }
  thread.totals.end = std::max(thread.mark, end);
}

// Threads that are gone, and exits that wait to be returned, have no time after `begin`.
void ExitTracker::begin_at(Timestamp begin) {
  begin_ = begin;
  for (auto& entry : threads_.entries()) {
    Thread& thread = entry.state;
    account(thread, begin);
    if (thread.phase == Thread::Phase::kGone) thread.is_vcpu = false;
    if (thread.phase == Thread::Phase::kEnded) thread.phase = Thread::Phase::kUnknown;
    const VcpuTotals before = std::exchange(thread.totals, {});
    thread.totals.vcpu = before.vcpu;
    thread.totals.source = before.source;
    thread.totals.rip_shown = before.rip_shown;
    thread.totals.begin = thread.mark = begin;
    thread.is_cut = in_exit(thread);
    thread.span.parts = {};
    thread.intervals.clear();
    thread.handlers.clear();
  }
  counters_ = {.threads_left_out = counters_.threads_left_out};
  std::ranges::fill(event_counts_, VmmEventCount());
  pass();
}

void ExitTracker::end_at(Timestamp end) {
  pass();
  end_ = end;
  is_cut_ = true;
  std::uint64_t cut = 0;
  for (auto& [id, thread] : threads_.entries()) {
    const bool in_guest = thread.phase == Thread::Phase::kGuest;
    if (thread.phase == Thread::Phase::kGone) continue;
    if (!in_guest && !in_exit(thread)) {
      carry(thread, end);
      continue;
    }
    const Timestamp start = in_guest ? thread.mark : thread.span.start;
    open_.push_back({id, start, in_guest});
    thread.totals.open = open_state(thread);
    thread.totals.open_ns = elapsed(start, end);
    if (thread.phase == Thread::Phase::kExit && !thread.is_cut) ++cut;
    thread.was_stopped = true;                              // the exit will not become a span
    thread.is_cut |= thread.phase == Thread::Phase::kLeft;  // no span even if kvm_exit comes later
  }
  counted_ = {counters_, event_counts_};
  counted_.first.exits += cut;
  counted_.first.exit_without_entry += cut;
}

// Takes an event after end_at() as if it came at that time, so that it adds no time to any state.
void ExitTracker::settle(const Event& event, ThreadChanges changes) {
  pass();
  Event late = event;
  late.at = *end_;
  if (auto* wakeup = std::get_if<KvmVcpuWakeup>(&late.payload))
    wakeup->ns -= std::min(wakeup->ns, elapsed(*end_, event.at));
  // A marker may say that the VMM stopped or starts all its vCPUs, so it is taken for all at once.
  const bool of_all = std::holds_alternative<Marker>(event.payload) && !model_.from_vmm;
  if (of_all) (void)on(late);
  std::erase_if(open_, [&](const Open& open) {
    Thread& thread = *threads_.find(open.thread);
    for (const ThreadChange& change : changes)
      if (change.thread == open.thread) on(late, change);
    const auto* made = std::get_if<NewThread>(&event.payload);
    const bool is_its = changes.empty() &&
                        (made != nullptr ? earlier_of(made->child) : event.thread) == open.thread;
    bool is_over = is_its && std::holds_alternative<KvmExit>(event.payload);
    if (is_over && thread.phase == Thread::Phase::kGuest)
      end_guest_run(thread, *end_);
    else if (is_over && thread.phase == Thread::Phase::kLeft)
      fold(thread);
    else if (is_over)
      end_unended(thread, *end_);
    else if (is_its && !of_all)
      (void)on(late);
    is_over |= open.in_guest ? thread.phase != Thread::Phase::kGuest
                             : !in_exit(thread) || thread.span.start != open.start;
    if (!is_over) return false;
    thread.totals.end = *end_;
    thread.phase = Thread::Phase::kGone;
    return true;
  });
}

void ExitTracker::close(Timestamp end, bool cut, bool lacks_cpu) {
  pass();
  closed_ = true;
  is_cut_ = cut;
  lacks_cpu_ = lacks_cpu;
  if (end_) {
    for (const Open& open : open_) carry(*threads_.find(open.thread), end);
    std::tie(counters_, event_counts_) = std::move(counted_);
    return;
  }
  for (auto& entry : threads_.entries())
    if (entry.state.phase != Thread::Phase::kGone) carry(entry.state, end);
}

void ExitTracker::take(const Event& event, const NewThread& made) {
  if (Timestamp* created = created_.get(made.child, kMostThreads)) *created = event.at;
  Thread* earlier = threads_.find(made.child);
  if (earlier == nullptr) earlier = threads_.find(earlier_of(made.child));
  if (earlier == nullptr || earlier->phase == Thread::Phase::kGone ||
      earlier->phase == Thread::Phase::kEnded)
    return;
  // The earlier thread with this id ended at an unknown time.
  if (leave_unended(*earlier)) ++counters_.exits_stopped;
  if (in_exit(*earlier)) fold(*earlier);
  tally(*earlier, State::kNotSeen, earlier->mark, event.at);
  earlier->totals.end = earlier->mark = std::max(earlier->mark, event.at);
  earlier->phase = Thread::Phase::kGone;
}

[[gnu::noinline]] const ExitSpan* ExitTracker::on_changes(const Event& event,
                                                          ThreadChanges changes) {
  for (const ThreadChange& change : changes) on(event, change);
  return nullptr;
}

inline void ExitTracker::on(const Event& event, const ThreadChange& change) {
  if (Thread* thread = threads_.find(change.thread)) {
    if (change.leaves()) return on_leave(*thread, event, change);
    if (change.wakes()) return on_wakeup(*thread, change, event.at);
    if (change.kind == ThreadChange::Kind::kMoves) return on_move(*thread, change, event.at);
    if (change.runs()) on_run(*thread, event, change.lacks_cpu);
    if (change.ends()) {
      seen(*thread, event);
      account(*thread, event.at);
      if (in_exit(*thread) && is_all_halted(*thread))
        recut(*thread, thread->span.start, thread->mark, State::kHalted);
      end_thread(*thread, event.at);
    }
  }
  if (change.runs() && !hole_end_.empty()) [[unlikely]]
    remember(event.cpu, change.thread);
  if (change.loses()) [[unlikely]]
    on_lost(change);
}

// Remembers the thread that runs after a loss: it may turn out to run a vCPU. Not inlined, as the
// common way through on() would have to save registers for it.
[[gnu::noinline]] void ExitTracker::remember(std::uint32_t cpu, ThreadId thread) {
  if (cpu >= back_.size()) back_.resize(cpu + 1);
  back_[cpu] = thread;
}

// Takes that the thread ran unseen from the time that was accounted to `at`.
[[gnu::noinline]] void ExitTracker::close_as_hidden(Thread& thread, Timestamp at) {
  thread.may_hide = false;
  if (thread.phase == Thread::Phase::kGone || thread.phase == Thread::Phase::kEnded) return;
  close_for_loss(thread, counters_.exit_without_entry);
  forget(thread, at);
  hidden_ = thread.id;
  told_ = true;
}

// Where a CPU is not recorded, the thread may have run there, unless it was in this CPU's queue.
inline void ExitTracker::on_run(Thread& thread, const Event& event, bool lacks_cpu) {
  const bool was_here = thread.queued && thread.cpu == event.cpu;
  if (lacks_cpu ? thread.off_cpu && !(was_here && model_.moves) : thread.may_hide && !was_here)
      [[unlikely]]
    close_as_hidden(thread, event.at);
  seen(thread, event);
  // The thread is switched in without having been switched out, so it is not known since when it
  // was off the CPU.
  if (!thread.off_cpu && (in_exit(thread) || thread.phase == Thread::Phase::kGuest)) [[unlikely]] {
    forget(thread, event.at);
    if (leave_unended(thread)) ++counters_.exit_without_entry;
    thread.phase = Thread::Phase::kUnknown;
  }
  runs(thread, event.at);
  thread.back = true;
}

inline void ExitTracker::on_leave(Thread& thread, const Event& event, const ThreadChange& change) {
  seen(thread, event);
  // While another CPU's events are being lost, the thread may run there unseen.
  if (event.at < latest_hole_end_) [[unlikely]] {
    const bool in_guest = thread.phase == Thread::Phase::kGuest;
    for (std::size_t cpu = 0; cpu < hole_end_.size(); ++cpu) {
      if (cpu == event.cpu || hole_end_[cpu] <= event.at) continue;
      account(thread, event.at);
      close_for_loss(thread, counters_.closed_by_loss);
    }
    // The kvm_exit that ends this run of the guest may still come.
    if (in_guest && thread.phase == Thread::Phase::kUnknown) thread.back = true;
  }
  if (thread.phase == Thread::Phase::kGuest && is_asleep(change.now)) {
    // A kvm_exit is missing: no thread sleeps in the guest.
    forget(thread, event.at);
    thread.phase = Thread::Phase::kUnknown;
  } else if (thread.phase == Thread::Phase::kGuest) {
    end_guest_run(thread, event.at);
    begin(thread, event);
    thread.phase = Thread::Phase::kLeft;
  }
  account(thread, event.at);
  thread.off_cpu = true;
  thread.off_since = event.at;
  thread.asleep = is_asleep(change.now);
  thread.queued = !thread.asleep;
  thread.stopped =
      change.now == RunState::kStopped || (thread.vmm_stopped && thread.asleep && thread.in_user);
  if (change.now == RunState::kEnded) [[unlikely]]
    return end_thread(thread, event.at);
  if (!in_exit(thread)) return;
  keep_from_now(thread, event.at);
  if (!thread.asleep) return;
  if (thread.slept == Timestamp() && !thread.in_user) thread.slept = event.at;
  if (state_of(thread) != State::kHalted) return;
  // The thread slept in this halt before and will be woken again, so the halt lasted until now.
  if (thread.halted_from != Timestamp())
    recut(thread, thread.halted_from, event.at, State::kHalted);
  else
    thread.halted_from = event.at;
}

// A wake-up may prove that the thread ran and slept unseen: its last CPU is not recorded, or is not
// the one of its queue, or it was woken before or is in the guest, and only what sleeps is woken.
inline void ExitTracker::on_wakeup(Thread& thread, const ThreadChange& change, Timestamp at) {
  const bool is_woken = thread.off_cpu && !thread.asleep && thread.woken >= *thread.off_since;
  const bool in_guest =
      thread.phase == Thread::Phase::kGuest && knows_switches() && !model_.from_userspace_exit;
  const bool was_elsewhere =
      thread.may_hide && thread.cpu != static_cast<std::uint32_t>(change.to_cpu);
  if (was_elsewhere ||
      (change.waking && (is_woken || in_guest || (thread.off_cpu && change.to_unseen))))
      [[unlikely]]
    return close_as_hidden(thread, at);
  if (thread.asleep) {
    account(thread, at);
    thread.asleep = thread.stopped = false;
    thread.woken = at;
  }
  if (thread.off_cpu && !change.waking) queue(thread, change);
}

// Notes that the thread is in the queue of to_cpu.
inline void ExitTracker::queue(Thread& thread, const ThreadChange& change) {
  thread.queued = true;
  thread.may_hide = change.to_unseen;
  thread.cpu = static_cast<std::uint32_t>(change.to_cpu);
}

// Only a thread that is off its CPU is moved, and to another one: else it has run unseen.
inline void ExitTracker::on_move(Thread& thread, const ThreadChange& change, Timestamp at) {
  const bool runs = !thread.off_cpu && knows_switches() &&
                    (in_exit(thread) || thread.phase == Thread::Phase::kGuest);
  const bool was_there =
      change.lacks_cpu && thread.off_cpu && thread.cpu == static_cast<std::uint32_t>(change.to_cpu);
  if (runs || was_there || thread.may_hide) [[unlikely]]
    return close_as_hidden(thread, at);
  if (!thread.off_cpu) return;
  account(thread, at);
  queue(thread, change);
}

// Handles QEMU's report that it stopped or starts its vCPUs. The report of a stop comes after the
// stop, so every vCPU that then sleeps in user space is paused; that of a start comes before QEMU
// wakes them.
void ExitTracker::on_vm_state(const Event& event) {
  saw_vm_state_ = true;
  if (processes_ == nullptr || vmm_event_.number < 0) return;
  const ThreadId process = processes_->of(event.thread, event.thread);
  if (std::exchange(processes_seen_, processes_->changes()) != processes_->changes())
    process_of_.clear();
  auto& entries = threads_.entries();
  while (process_of_.size() < entries.size()) {
    const ThreadId id = entries[process_of_.size()].thread;
    process_of_.push_back(processes_->of(id, id));
  }
  for (std::size_t i = 0; i < process_of_.size(); ++i) {
    if (process_of_[i] != process) continue;
    Thread& thread = entries[i].state;
    thread.vmm_stopped = vmm_event_.number == 0;
    if (i < unseen_.size()) unseen_[i] = false;
    if (!thread.vmm_stopped || !in_exit(thread) || !thread.in_user) continue;
    if (!thread.off_cpu || !thread.asleep || thread.stopped || !thread.off_since) continue;
    account(thread, event.at);
    recut(thread, *thread.off_since, event.at, State::kPaused);
    thread.stopped = true;
  }
}

// Closes what the loss may hide: the exits and guest runs of threads that may have been on the CPU.
// An exit or a run of a thread that runs on another CPU goes on.
void ExitTracker::on_lost(const ThreadChange& loss) {
  if (loss.cpu >= hole_end_.size()) hole_end_.resize(loss.cpu + 1);
  hole_end_[loss.cpu] = std::max(hole_end_[loss.cpu], loss.until);
  latest_hole_end_ = std::max(latest_hole_end_, loss.until);
  auto& entries = threads_.entries();
  unseen_.resize(entries.size());
  for (std::size_t i = 0; i < unseen_.size(); ++i) {
    if (unseen_[i]) continue;
    Thread& thread = entries[i].state;
    thread.vmm_stopped = false;  // the lost events may include the VMM's report of a start
    // Without sched_switch, the recording does not show where a thread went.
    const bool elsewhere = thread.cpu != loss.cpu && !thread.off_cpu;
    if (elsewhere && model_.sched_switch && !model_.from_vmm) continue;
    unseen_[i] = true;  // until an event shows the thread
    account(thread, loss.at);
    close_for_loss(thread, counters_.closed_by_loss);
  }
}

// The following functions find which device served an exit, and which QEMU event shows what the
// device did.

// RISC-V has no kvm_mmio: a page fault that user space must answer is an access to a device.
void ExitTracker::name_mmio(ExitSpan& span) {
  if (span.userspace_reason != kUserspaceMmio || span.detail.kind != DetailKind::kPageFault) return;
  const bool write = span.reason.reason == kRiscvStoreFault;
  span.detail = {span.detail.value, KvmDetail::kNoData, DetailKind::kMmio,
                 write ? trapline::Access::kWrite : trapline::Access::kRead, false};
}

// Names the device by the region with the exit's address. Other regions prove nothing: KVM replays
// coalesced writes inside a later exit, and a device may write a message for an interrupt.
inline void ExitTracker::name_device(Thread& thread) {
  ExitSpan& span = thread.span;
  const Access* chosen = nullptr;
  if (span.detail.kind <= DetailKind::kMmio) {
    for (std::size_t i = 0; i < thread.accesses; ++i) {
      const Access& access = thread.access[i];
      if (access.region.has_address && access.region.address == span.detail.value) chosen = &access;
    }
  }
  if (chosen == nullptr) {
    span.vmm_event =
        thread.device_event != kNoName ? thread.device_event : thread.accelerator_event;
    return;
  }
  span.device = chosen->region.region;
  // QEMU traces a read after the device has answered, and a write before the device gets it.
  const NameId own =
      chosen->region.kind == VmmEvent::Kind::kRegionRead ? chosen->before : chosen->after;
  span.vmm_event = own != kNoName ? own : chosen->region.name;
}

// Notes what the event in vmm_event_ shows about who serves the thread's exit.
void ExitTracker::note_vmm_event(Thread& thread) const {
  switch (vmm_event_.kind) {
    case VmmEvent::Kind::kVmState:
    case VmmEvent::Kind::kAccelerator:
    case VmmEvent::Kind::kRunExit:
    case VmmEvent::Kind::kVcpuIoctl:
      thread.accelerator_event = vmm_event_.name;
      return;
    case VmmEvent::Kind::kDevice: {
      thread.device_event = thread.before_access = vmm_event_.name;
      if (thread.accesses == 0) return;
      Access& access = thread.access[thread.accesses - 1u];
      if (access.after == kNoName) access.after = vmm_event_.name;
      return;
    }
    case VmmEvent::Kind::kRegionRead:
    case VmmEvent::Kind::kRegionWrite:
      break;
  }
  // If the list is full, the latest access replaces the last one in it, unless the last one has the
  // exit's own address.
  if (thread.accesses == thread.access.size()) {
    const Access& last = thread.access.back();
    if (thread.span.detail.kind <= DetailKind::kMmio &&
        last.region.address == thread.span.detail.value) {
      return;
    }
    --thread.accesses;
  }
  thread.access[thread.accesses++] = {vmm_event_, std::exchange(thread.before_access, kNoName),
                                      kNoName};
}

}  // namespace trapline
