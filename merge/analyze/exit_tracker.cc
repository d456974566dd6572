#include "merge/analyze/exit_tracker.h"

#include <utility>

namespace trapline {
namespace {

constexpr std::uint32_t kMostCpus = 1u << 16;
constexpr ExitSpan kNoSpan;  // copied: faster than to clear 200 bytes

std::uint64_t& part(Parts& parts, Part which) { return parts[static_cast<std::size_t>(which)]; }

}  // namespace

// What the time of an exit goes to from the thread's mark on.
Part ExitTracker::part_of(const Thread& thread) {
  if (thread.off_cpu) return thread.asleep ? Part::kBlocked : Part::kPreempted;
  return thread.in_user ? Part::kUser : Part::kKernel;
}

void ExitTracker::add(Thread& thread, Timestamp at) {
  const Part which = part_of(thread);
  part(thread.span.parts, which) += elapsed(thread.mark, at);
  if (detail_ == Detail::kIntervals) keep(thread, which, at);
  thread.mark = at;
}

// Adds the interval up to `at`, or makes the last one longer where the part goes on.
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

// Every event of the thread itself comes by here: it shows where the thread runs, and that a loss
// of this CPU may have hidden what it did before.
void ExitTracker::seen(Thread& thread, const Event& event) {
  if (event.at < thread.last) [[unlikely]]
    ++counters_.clock_went_back;
  if (event.cpu < hole_end_.size() && hole_end_[event.cpu] > thread.last) [[unlikely]] {
    close_for_loss(thread);
  }
  thread.cpu = event.cpu;
  thread.last = std::max(thread.last, event.at);
}

// The thread is on a CPU: it was switched in, or does what no scheduler code does for it. (Other
// events prove nothing: arm64 saves the timers of a thread after its sched_switch.)
void ExitTracker::runs(Thread& thread, Timestamp at) {
  if (!thread.off_cpu) return;
  account(thread, at);
  thread.off_cpu = thread.asleep = false;
}

void ExitTracker::close_for_loss(Thread& thread) {
  if (thread.phase == Thread::Phase::kExit) ++counters_.closed_by_loss;
  // Keep the completed exit, but attach no detail seen after the loss.
  if (thread.phase != Thread::Phase::kEnded) thread.phase = Thread::Phase::kUnknown;
  thread.sealed = true;
  thread.waiting = kNoDetail;
  thread.off_cpu = thread.asleep = thread.in_user = false;
}

void ExitTracker::set_vcpu(Thread& thread, std::int32_t vcpu) {
  if (vcpu != kNoVcpu) thread.totals.vcpu = vcpu;
}

// The state of the event's thread, made when it is the thread's first kvm event.
ExitTracker::Thread* ExitTracker::vcpu_thread(const Event& event) {
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr) {
    ++counters_.threads_left_out;
    return nullptr;
  }
  thread->totals.source = event.source;
  seen(*thread, event);
  runs(*thread, event.at);
  return thread;
}

void ExitTracker::begin(Thread& thread, const Event& event, const ExitReason& reason,
                        std::uint64_t rip) {
  thread.phase = Thread::Phase::kExit;
  thread.in_user = thread.off_cpu = thread.asleep = thread.sealed = false;
  thread.accesses = 0;
  thread.device_event = thread.accelerator_event = thread.before_access = kNoName;
  thread.mark = event.at;
  thread.span = kNoSpan;
  thread.span.start = event.at;
  thread.span.thread = event.thread;
  thread.span.cpu = event.cpu;
  thread.span.source = event.source;
  thread.span.reason = reason;
  thread.span.rip = rip;
  thread.user_begin = {};
  if (detail_ == Detail::kIntervals) {
    thread.intervals.clear();
    thread.handlers.clear();
  }
}

void ExitTracker::on_exit(const Event& event, const KvmExit& exit) {
  Thread* thread = vcpu_thread(event);
  if (thread == nullptr) return;
  set_vcpu(*thread, exit.vcpu);
  if (thread->phase == Thread::Phase::kExit) ++counters_.exit_without_entry;
  if (thread->phase == Thread::Phase::kGuest) {
    thread->totals.guest_ns += elapsed(thread->mark, event.at);
    has_run_ = true;
    run_ = {event.thread, thread->totals.vcpu, thread->mark, event.at};
  }
  begin(*thread, event, {exit.reason, exit.isa, exit.exception_class}, exit.rip);
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
}

const ExitSpan* ExitTracker::on_entry(const Event& event, const KvmEntry& entry) {
  Thread* thread = vcpu_thread(event);
  if (thread == nullptr) return nullptr;
  set_vcpu(*thread, entry.vcpu);
  if (model_.from_userspace_exit) return nullptr;
  const ExitSpan* span = nullptr;
  if (thread->phase == Thread::Phase::kExit) {
    if (thread->in_user && model_.user_end != UserEnd::kEntry) ++counters_.user_without_end;
    account(*thread, event.at);
    span = emit(*thread);
  } else {
    ++counters_.entry_without_exit;
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
    thread->in_user = true;
    thread->user_begin = event.at;
    thread->span.userspace_reason = exit.reason;
    if (thread->span.reason.isa == kIsaRiscv) name_mmio(thread->span);
    return nullptr;
  }
  Thread* thread = vcpu_thread(event);
  if (thread == nullptr) return nullptr;
  const ExitSpan* previous = thread->phase == Thread::Phase::kEnded ? emit(*thread) : nullptr;
  if (thread->phase == Thread::Phase::kExit) ++counters_.exit_without_entry;
  begin(*thread, event, {exit.reason, ExitReason::kIsaUserspace, 0}, 0);
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
  if (thread == nullptr) return;
  seen(*thread, event);
  if (by != model_.user_end || thread->phase != Thread::Phase::kExit || !thread->in_user) {
    return;
  }
  account(*thread, event.at);
  thread->in_user = false;
  user_ended_ = thread->user_begin;
  if (model_.from_userspace_exit) thread->phase = Thread::Phase::kEnded;
}

const ExitSpan* ExitTracker::on_detail(const Event& event, const KvmDetail& detail) {
  if (model_.from_userspace_exit) return on_fallback_detail(event, detail);
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr) return nullptr;
  seen(*thread, event);
  if (thread->phase == Thread::Phase::kExit && detail.kind < thread->span.detail.kind) {
    thread->span.detail = detail;
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

// Sums up a span whose end is known.
const ExitSpan* ExitTracker::emit(Thread& thread) {
  name_device(thread);
  thread.phase = Thread::Phase::kUnknown;
  thread.span.end = thread.mark;
  thread.span.vcpu = thread.totals.vcpu;
  VcpuTotals& totals = thread.totals;
  ++totals.exits;
  for (std::size_t i = 0; i < kParts; ++i) totals.parts[i] += thread.span.parts[i];
  if (is_halt(thread.span.reason)) totals.halt_ns += thread.span.total();
  ++counters_.exits;
  done_ = thread.span;
  if (detail_ == Detail::kIntervals) {
    done_intervals_.swap(thread.intervals);
    done_handlers_.swap(thread.handlers);
    done_.intervals = done_intervals_;
    done_.handlers = done_handlers_;
  }
  return &done_;
}

void ExitTracker::on_switch(const Event& event, const SchedSwitch& sched) {
  if (Thread* prev = threads_.find(sched.prev); prev != nullptr) {
    seen(*prev, event);
    // While another CPU's events are being lost, the thread may run there unseen.
    if (event.at < latest_hole_end_) [[unlikely]] {
      for (std::size_t cpu = 0; cpu < hole_end_.size(); ++cpu) {
        if (cpu != event.cpu && hole_end_[cpu] > event.at) close_for_loss(*prev);
      }
    }
    account(*prev, event.at);
    prev->off_cpu = true;
    prev->off_since = event.at;
    prev->asleep = !sched.runnable;
    if (sched.runnable && prev->phase == Thread::Phase::kExit &&
        prev->span.preempted_by == ThreadId{}) {
      prev->span.preempted_by = sched.next;
    }
  }
  if (Thread* next = threads_.find(sched.next); next != nullptr) {
    seen(*next, event);
    runs(*next, event.at);
  }
}

void ExitTracker::on_wakeup(const Event& event, ThreadId woken) {
  Thread* thread = threads_.find(woken);
  if (thread == nullptr || !thread->asleep) return;
  account(*thread, event.at);
  thread->asleep = false;
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

void ExitTracker::on_lost(const Event& event, const Lost& lost) {
  if (event.cpu < kMostCpus) {
    if (event.cpu >= hole_end_.size()) hole_end_.resize(event.cpu + 1);
    hole_end_[event.cpu] = std::max(hole_end_[event.cpu], lost.to);
  }
  latest_hole_end_ = std::max(latest_hole_end_, lost.to);
  for (auto& entry : threads_.entries()) {
    if (entry.state.cpu == event.cpu || entry.state.off_cpu) close_for_loss(entry.state);
  }
}

struct ExitTracker::Dispatch {
  ExitTracker& tracker;
  const Event& event;
  const ExitSpan* operator()(const KvmExit& exit) const {
    tracker.on_exit(event, exit);
    return nullptr;
  }
  const ExitSpan* operator()(const KvmEntry& entry) const { return tracker.on_entry(event, entry); }
  const ExitSpan* operator()(const KvmUserspaceExit& exit) const {
    return tracker.on_userspace_exit(event, exit);
  }
  const ExitSpan* operator()(const KvmStateLoad& reload) const {
    if (Thread* thread = tracker.threads_.find(event.thread)) set_vcpu(*thread, reload.vcpu);
    tracker.on_user_end(event, UserEnd::kReload);
    return nullptr;
  }
  const ExitSpan* operator()(const IoctlEnter& ioctl) const {
    if (ioctl.command == kKvmRun) tracker.on_user_end(event, UserEnd::kIoctl);
    return nullptr;
  }
  const ExitSpan* operator()(const KvmDetail& detail) const {
    return tracker.on_detail(event, detail);
  }
  const ExitSpan* operator()(const KvmIrq& irq) const {
    if (irq.step != IrqStep::kInject) return nullptr;
    if (Thread* thread = tracker.threads_.find(event.thread)) thread->span.injected = irq.vector;
    return nullptr;
  }
  const ExitSpan* operator()(const KvmNested& nested) const {
    tracker.on_nested(event, nested.step);
    return nullptr;
  }
  const ExitSpan* operator()(const SchedSwitch& sched) const {
    tracker.on_switch(event, sched);
    return nullptr;
  }
  const ExitSpan* operator()(const SchedWakeup& wakeup) const {
    tracker.on_wakeup(event, wakeup.thread);
    return nullptr;
  }
  const ExitSpan* operator()(const Marker& marker) const {
    tracker.on_marker(event, marker);
    return nullptr;
  }
  const ExitSpan* operator()(const Lost& lost) const {
    tracker.on_lost(event, lost);
    return nullptr;
  }
  const ExitSpan* operator()(const auto&) const { return nullptr; }
};

const ExitSpan* ExitTracker::on(const Event& event) {
  pass();
  return std::visit(Dispatch{*this, event}, event.payload);
}

}  // namespace trapline
