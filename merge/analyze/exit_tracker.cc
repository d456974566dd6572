// More than 400 lines: what each event means for the exit of its thread, one after the other.
#include "merge/analyze/exit_tracker.h"

#include <bit>
#include <utility>

namespace trapline {
namespace {

constexpr ExitSpan kNoSpan;  // copied: faster than to clear 200 bytes
constexpr std::uint64_t kPsciCpuOff = 0x84000002;

template <typename T>
constexpr std::size_t index_of = static_cast<std::size_t>(std::countr_zero(payload_bit<T>()));

}  // namespace

void ExitTracker::look_for_loss(Thread& thread, const Event& event) {
  if (event.at < thread.last) ++counters_.clock_went_back;
  if (thread.index < unseen_.size()) unseen_[thread.index] = false;
  if (event.cpu >= hole_end_.size() || hole_end_[event.cpu] <= thread.last) return;
  account(thread, thread.last);
  close_for_loss(thread);
}

// The thread is on a CPU: it was switched in, or does what no scheduler code does for it. (Other
// events prove nothing: arm64 saves the timers of a thread after its sched_switch.)
void ExitTracker::runs(Thread& thread, Timestamp at) {
  if (!thread.off_cpu) return;
  account(thread, at);
  if (thread.asleep) thread.woken = at;
  thread.off_cpu = thread.asleep = thread.stopped = false;
}

// The thread is accounted up to where its events may be lost.
void ExitTracker::close_for_loss(Thread& thread) {
  if (thread.phase == Thread::Phase::kExit && !thread.is_cut) ++counters_.closed_by_loss;
  if (in_exit(thread)) fold(thread);
  // Its kvm_exit may come yet.
  thread.back &= thread.phase == Thread::Phase::kUnknown;
  thread.back |= thread.phase == Thread::Phase::kLeft;
  // Keep the completed exit, but attach no detail seen after the loss.
  if (thread.phase != Thread::Phase::kEnded && thread.phase != Thread::Phase::kGone)
    thread.phase = Thread::Phase::kUnknown;
  thread.sealed = true;
  thread.waiting = kNoDetail;
  thread.off_cpu = thread.asleep = thread.stopped = thread.in_user = false;
}

void ExitTracker::set_vcpu(Thread& thread, std::int32_t vcpu) {
  if (vcpu != kNoVcpu) thread.totals.vcpu = vcpu;
}

// The state of the event's thread, made when it is the thread's first event of KVM.
ExitTracker::Thread* ExitTracker::known_thread(const Event& event) {
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr) {
    ++counters_.threads_left_out;
    return nullptr;
  }
  if (!thread->is_known) [[unlikely]] {
    const Timestamp* created = created_.find(event.thread);
    thread->is_known = true;
    thread->index = threads_.entries().size() - 1;
    thread->id = event.thread;
    thread->phase = Thread::Phase::kOffline;
    thread->last = created ? *created : event.at;
    thread->totals.begin = thread->mark = std::max(thread->last, begin_);
    thread->back = event.cpu < back_.size() && back_[event.cpu] == event.thread;
  }
  thread->totals.source = event.source;
  seen(*thread, event);
  runs(*thread, event.at);
  return thread;
}

// The same of an event that only the thread of a vCPU has.
ExitTracker::Thread* ExitTracker::vcpu_thread(const Event& event) {
  Thread* thread = known_thread(event);
  if (thread == nullptr) return nullptr;
  thread->is_vcpu = true;
  if (model_.from_userspace_exit && thread->phase == Thread::Phase::kOffline) {
    account(*thread, event.at);
    thread->phase = Thread::Phase::kUnknown;
  }
  return thread;
}

// An exit begins; name() tells why.
void ExitTracker::begin(Thread& thread, const Event& event) {
  thread.in_user = thread.off_cpu = thread.asleep = thread.stopped = thread.sealed = false;
  thread.goes_offline = thread.was_stopped = thread.is_cut = false;
  thread.keeps = detail_ == Detail::kIntervals;
  thread.halts_from = thread.halted_from = thread.slept = thread.woken = {};
  thread.accesses = 0;
  thread.device_event = thread.accelerator_event = thread.before_access = kNoName;
  thread.mark = event.at;
  thread.span = kNoSpan;
  thread.span.start = event.at;
  thread.span.thread = thread.id;
  thread.span.cpu = event.cpu;
  thread.span.source = event.source;
  thread.user_begin = {};
  thread.intervals.clear();
  thread.handlers.clear();
}

void ExitTracker::name(Thread& thread, const Event& event, const ExitReason& reason,
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

void ExitTracker::end_guest_run(Thread& thread, Timestamp at) {
  thread.totals.guest_ns += elapsed(thread.mark, at);
  has_run_ = true;
  run_ = {thread.id, thread.totals.vcpu, thread.mark, at};
  thread.mark = std::max(thread.mark, at);
}

void ExitTracker::on_exit(const Event& event, const KvmExit& exit) {
  Thread* thread = vcpu_thread(event);
  if (thread == nullptr) return;
  set_vcpu(*thread, exit.vcpu);
  if (thread->phase == Thread::Phase::kGuest) {
    end_guest_run(*thread, event.at);
    begin(*thread, event);
  } else if (thread->phase == Thread::Phase::kLeft) {
    account(*thread, event.at);
    if (thread->is_cut) ++counters_.exit_without_entry;
  } else if (thread->back && (thread->phase == Thread::Phase::kUnknown ||
                              (thread->phase == Thread::Phase::kOffline && !hole_end_.empty()))) {
    account(*thread, event.at);
    ++counters_.closed_by_loss;
    return;
  } else {
    const bool open = thread->phase == Thread::Phase::kExit;
    saw_exits_in_a_row_ |= open;
    if (open && !thread->is_cut) ++counters_.exit_without_entry;
    open ? forget(*thread, event.at) : account(*thread, event.at);
    begin(*thread, event);
  }
  name(*thread, event, {exit.reason, exit.isa, exit.exception_class}, exit.rip);
  if (exit.fault_address != KvmExit::kNoAddress) {
    thread->span.detail = {exit.fault_address, 0, DetailKind::kPageFault, trapline::Access::kNone,
                           false};
  }
}

// What the exit begins with decides: one that enters the nested guest may be told to leave it at
// once.
void ExitTracker::on_nested(const Event& event, NestedStep step) {
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
  // It may be entered halted.
  if (level == NestedLevel::kGuestEnters) keep_from_now(*thread, event.at);
}

const ExitSpan* ExitTracker::on_entry(const Event& event, const KvmEntry& entry) {
  Thread* thread = vcpu_thread(event);
  if (thread == nullptr) return nullptr;
  set_vcpu(*thread, entry.vcpu);
  saw_entry_ = true;
  if (model_.from_userspace_exit) return nullptr;
  const ExitSpan* span = nullptr;
  if (thread->phase == Thread::Phase::kExit) {
    if (thread->in_user && model_.user_end != UserEnd::kEntry) ++counters_.user_without_end;
    account(*thread, event.at);
    span = end_exit(*thread);
  } else {
    ++counters_.entry_without_exit;
    const bool fits = thread->phase != Thread::Phase::kGuest && !in_exit(*thread);
    fits ? account(*thread, event.at) : forget(*thread, event.at);
  }
  thread->phase = Thread::Phase::kGuest;
  thread->mark = event.at;
  return span;
}

const ExitSpan* ExitTracker::on_userspace_exit(const Event& event, const KvmUserspaceExit& exit) {
  if (!model_.from_userspace_exit) {
    Thread* thread = threads_.find(event.thread);
    if (thread == nullptr) return nullptr;
    seen(*thread, event);
    runs(*thread, event.at);
    if (thread->phase != Thread::Phase::kExit) return nullptr;
    account(*thread, event.at);
    // x86: KVM_RUN waited for SIPI.
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
    done_ = *emit(*thread);  // the next one begins at once
    previous = &done_;
  }
  const bool open = thread->phase == Thread::Phase::kExit;
  if (open && !thread->is_cut) ++counters_.exit_without_entry;
  open ? forget(*thread, event.at) : account(*thread, event.at);
  begin(*thread, event);
  name(*thread, event, {exit.reason, ExitReason::kIsaUserspace, 0}, 0);
  thread->in_user = true;
  thread->user_begin = event.at;
  thread->span.userspace_reason = exit.reason;
  thread->span.detail = std::exchange(thread->waiting, kNoDetail);
  if (!model_.durations()) {  // the span is a point; what follows may still tell its detail
    thread->phase = Thread::Phase::kEnded;
  }
  return previous;
}

void ExitTracker::on_user_end(const Event& event, UserEnd by) {
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr) {
    // It may be a vCPU that waits to be started.
    if (!model_.from_userspace_exit) (void)known_thread(event);
    return;
  }
  seen(*thread, event);
  if (by != model_.user_end || thread->phase != Thread::Phase::kExit || !thread->in_user) {
    return;
  }
  account(*thread, event.at);
  thread->in_user = false;
  thread->slept = {};
  user_ended_ = thread->user_begin;
  if (!model_.from_userspace_exit) return;
  if (thread->is_cut)
    fold_cut(*thread);
  else
    thread->phase = Thread::Phase::kEnded;
}

const ExitSpan* ExitTracker::on_detail(const Event& event, const KvmDetail& detail) {
  if (model_.from_userspace_exit) return on_fallback_detail(event, detail);
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr) return nullptr;
  seen(*thread, event);
  if (thread->phase == Thread::Phase::kExit && detail.kind < thread->span.detail.kind) {
    thread->span.detail = detail;
    if (detail.kind == DetailKind::kHypercall) {
      saw_hypercall_ = true;
      if (detail.value == kPsciCpuOff) thread->goes_offline = thread->span.reason.isa == kIsaArm64;
    }
  }
  return nullptr;
}

// A write, or a read yet to be answered, comes before the exit that it is about; an answered read
// after it.
const ExitSpan* ExitTracker::on_fallback_detail(const Event& event, const KvmDetail& detail) {
  if (detail.kind > DetailKind::kMmio) return nullptr;
  Thread* thread = vcpu_thread(event);
  if (thread == nullptr) return nullptr;
  if (detail.access == trapline::Access::kWrite || detail.unsatisfied) {
    thread->waiting = detail;
    return thread->phase == Thread::Phase::kEnded ? emit(*thread) : nullptr;
  }
  if (thread->phase != Thread::Phase::kEnded) return nullptr;
  if (thread->span.detail.kind == DetailKind::kNone && !thread->sealed) {
    thread->span.detail = detail;
  }
  return emit(*thread);
}

const ExitSpan* ExitTracker::end_exit(Thread& thread) {
  if (thread.is_cut) {
    ++counters_.entry_without_exit;
    fold_cut(thread);
    return nullptr;
  }
  if (!thread.was_stopped) return emit(thread);
  ++counters_.exits_stopped;
  fold(thread);
  thread.phase = Thread::Phase::kUnknown;
  return nullptr;
}

// Sums up a span whose end is known; valid until the thread's next exit begins.
const ExitSpan* ExitTracker::emit(Thread& thread) {
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

void ExitTracker::on_marker(const Event& event, const Marker& marker) {
  is_vmm_event_ = reader_->read(marker.text, vmm_event_);
  Thread* thread = threads_.find(event.thread);
  if (thread != nullptr) {
    seen(*thread, event);
    runs(*thread, event.at);
  }
  if (!is_vmm_event_) return;
  ++counters_.vmm_events;
  if (vmm_event_.kind == VmmEventKind::kVmState) [[unlikely]]
    on_vm_state(event);
  if (vmm_event_.name >= event_counts_.size()) event_counts_.resize(vmm_event_.name + 1);
  VmmEventCount& count = event_counts_[vmm_event_.name];
  ++count.count;
  if (thread == nullptr) return;
  set_vcpu(*thread, vmm_event_.vcpu);
  const bool inside =
      thread->phase == Thread::Phase::kExit && (thread->in_user || !model_.userspace_exits);
  if (!inside) return;
  ++count.in_exits;
  ++counters_.vmm_events_in_exits;
  ++thread->span.vmm_events;
  if (detail_ == Detail::kIntervals && thread->handlers.size() < kMostIntervals) {
    thread->handlers.push_back({event.at, vmm_event_.name, vmm_event_.region,
                                vmm_event_.kind == VmmEvent::Kind::kRegionRead});
  }
  note_vmm_event(*thread);
}

void ExitTracker::on_state_load(const Event& event, const KvmStateLoad& load) {
  if (Thread* thread = threads_.find(event.thread)) set_vcpu(*thread, load.vcpu);
  on_user_end(event, UserEnd::kReload);
}

void ExitTracker::on_irq(const Event& event, const KvmIrq& irq) {
  if (irq.step != IrqStep::kInject) return;
  if (Thread* thread = threads_.find(event.thread)) thread->span.injected = irq.vector;
}

// A switch: std::visit calls a function for each type, which then calls another.
const ExitSpan* ExitTracker::on(const Event& event) {
  pass();
  const Payload& payload = event.payload;
  switch (payload.index()) {
    case index_of<KvmExit>:
      on_exit(event, *std::get_if<KvmExit>(&payload));
      break;
    case index_of<KvmEntry>:
      return on_entry(event, *std::get_if<KvmEntry>(&payload));
    case index_of<KvmUserspaceExit>:
      return on_userspace_exit(event, *std::get_if<KvmUserspaceExit>(&payload));
    case index_of<KvmStateLoad>:
      on_state_load(event, *std::get_if<KvmStateLoad>(&payload));
      break;
    case index_of<IoctlEnter>:
      if (std::get_if<IoctlEnter>(&payload)->command == kKvmRun)
        on_user_end(event, UserEnd::kIoctl);
      break;
    case index_of<KvmDetail>:
      return on_detail(event, *std::get_if<KvmDetail>(&payload));
    case index_of<KvmIrq>:
      on_irq(event, *std::get_if<KvmIrq>(&payload));
      break;
    case index_of<KvmNested>:
      on_nested(event, std::get_if<KvmNested>(&payload)->step);
      break;
    case index_of<KvmVcpuWakeup>:
      on_halt(event, *std::get_if<KvmVcpuWakeup>(&payload));
      break;
    case index_of<KvmWfx>:
      on_wfx(event, *std::get_if<KvmWfx>(&payload));
      break;
    case index_of<NewThread>:
      on_new_thread(event, *std::get_if<NewThread>(&payload));
      break;
    case index_of<SchedSwitch>:
      on_switch(event, *std::get_if<SchedSwitch>(&payload));
      break;
    case index_of<SchedWakeup>:
      on_wakeup(event, std::get_if<SchedWakeup>(&payload)->thread);
      break;
    case index_of<Marker>:
      on_marker(event, *std::get_if<Marker>(&payload));
      break;
    case index_of<Lost>:
      on_lost(event, *std::get_if<Lost>(&payload));
      break;
    default:
      break;
  }
  return nullptr;
}

}  // namespace trapline
