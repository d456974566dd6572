// The states of a vCPU's thread: what the scheduler does to it, what a halt makes of an exit's
// time, and what becomes of the time of exits that are no spans.
#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "merge/analyze/exit_tracker.h"

namespace trapline {
namespace {

constexpr std::uint32_t kMostCpus = 1u << 16;

std::uint64_t& part(Parts& parts, Part which) { return parts[static_cast<std::size_t>(which)]; }

}  // namespace

// What the thread's time goes to from its mark on.
State ExitTracker::state_of(const Thread& thread) {
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

void ExitTracker::add(Thread& thread, Timestamp at) {
  if (thread.phase == Thread::Phase::kGone) [[unlikely]]
    return;  // its time has ended
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
  if (detail_ == Detail::kIntervals) runs_.push_back({thread.id, state, begin, end});
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

// The exit may turn out to be a halt: what follows can be recut.
void ExitTracker::keep_from_now(Thread& thread, Timestamp at) {
  thread.keeps = true;
  if (thread.halts_from == Timestamp()) thread.halts_from = at;
}

// Moves the time of an exit between the two times into one state, halted or offline. What no
// interval is kept of stays where it is.
void ExitTracker::recut(Thread& thread, Timestamp begin, Timestamp end, State to) {
  if (end <= begin) return;
  std::vector<PartInterval>& intervals = thread.intervals;
  const auto first = std::ranges::upper_bound(intervals, begin, {}, &PartInterval::end);
  auto last = std::ranges::lower_bound(first, intervals.end(), end, {}, &PartInterval::begin);
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
    if (to == State::kHalted) {
      part(thread.span.parts, Part::kHalted) += elapsed(from, until);
      put(Part::kHalted, from, until);
    } else {
      thread.was_stopped |= until > from;
      tally(thread, to, from, until);
    }
    put(piece.part, until, piece.end);
  }
  if (last != intervals.end() && !recut_.empty() && recut_.back().part == last->part &&
      recut_.back().end == last->begin) {
    recut_.back().end = last->end;
    ++last;
  }
  // Those after it stay where they are, if they can: there may be many, and many halts.
  const auto places = std::min<std::ptrdiff_t>(last - first, std::ssize(recut_));
  const auto done = std::copy_n(recut_.begin(), places, first);
  if (done != last)
    intervals.erase(done, last);
  else
    intervals.insert(last, recut_.begin() + places, recut_.end());
}

// KVM polled for the vCPU, or its thread slept; now it runs.
void ExitTracker::on_halt(const Event& event, const KvmVcpuWakeup& wakeup) {
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr) return;
  seen(*thread, event);
  runs(*thread, event.at);
  if (thread->phase != Thread::Phase::kExit || thread->halts_from == Timestamp()) return;
  account(*thread, event.at);
  const bool slept = thread->woken > thread->halts_from;
  if (model_.cycles && !slept) return;  // the poll's time cannot be placed
  Timestamp begin = thread->halts_from;
  if (!model_.cycles) {
    const Timestamp told(event.at.ns() - std::min(wakeup.ns, event.at.ns()));
    begin = std::max(begin, told);
  } else if (thread->halted_from != Timestamp()) {
    begin = thread->halted_from;
  }
  const Timestamp end =
      wakeup.waited && thread->woken > begin && model_.sched_switch ? thread->woken : event.at;
  if (thread->halted_from != Timestamp()) begin = std::min(begin, thread->halted_from);
  thread->span.halt = true;
  saw_halts_ = true;
  thread->halted_from = begin;
  recut(*thread, begin, end, State::kHalted);
}

void ExitTracker::on_wfx(const Event& event, const KvmWfx& wfx) {
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr) return;
  seen(*thread, event);
  if (wfx.is_wfe && thread->phase == Thread::Phase::kExit) thread->span.halt = false;
}

// The exit is no span, but its time up to the mark is known: that of its parts, or all of one
// state. What was halted before the vCPU went offline stays halted.
void ExitTracker::fold(Thread& thread, std::optional<State> as) {
  const auto state_of = [&](std::size_t part) {
    const auto state = static_cast<State>(part);
    return as == State::kOffline && state == State::kHalted ? state : as.value_or(state);
  };
  for (std::size_t i = 0; i < kParts; ++i) thread.totals.of(state_of(i)) += thread.span.parts[i];
  if (detail_ == Detail::kIntervals) {
    for (const PartInterval& piece : thread.intervals) {
      const State state = state_of(static_cast<std::size_t>(piece.part));
      runs_.push_back({thread.id, state, piece.begin, piece.end});
    }
  }
  thread.span.parts = {};
  thread.intervals.clear();
}

// An exit that began before the figures do has ended, or the recording ends in one: finish() counts
// that as open yet.
void ExitTracker::fold_cut(Thread& thread) {
  if (is_all_halted(thread)) recut(thread, thread.span.start, thread.mark, State::kHalted);
  for (std::size_t i = 0; i < kParts; ++i) thread.totals.cut_parts[i] += thread.span.parts[i];
  fold(thread);
  if (!closed_) thread.phase = Thread::Phase::kUnknown;
}

// An event does not fit: when the guest was left, or entered, is not known.
void ExitTracker::forget(Thread& thread, Timestamp at) {
  if (in_exit(thread)) fold(thread, State::kNotSeen);
  tally(thread, State::kNotSeen, thread.mark, at);
  thread.mark = std::max(thread.mark, at);
}

State ExitTracker::open_state(const Thread& thread) {
  return thread.phase == Thread::Phase::kEnded ? State::kNotSeen : state_of(thread);
}

// The thread ends. What it left the guest for last was no exit of the guest's: its VM was switched
// off, or the vCPU was taken away.
void ExitTracker::end_thread(Thread& thread, Timestamp at) {
  if (thread.phase == Thread::Phase::kExit && !thread.is_cut) ++counters_.exits_stopped;
  if (in_exit(thread)) {
    account(thread, at);
    fold(thread, State::kOffline);
  } else {
    carry(thread, at);
    thread.totals.open.reset();
    thread.totals.open_ns = 0;
  }
  thread.totals.end = std::max(thread.mark, at);
  if (thread.phase != Thread::Phase::kEnded) thread.phase = Thread::Phase::kGone;
}

// The recording ends: the state that the thread is in goes on to then.
void ExitTracker::carry(Thread& thread, Timestamp end) {
  thread.totals.open = open_state(thread);
  thread.totals.open_ns = 0;
  if (in_exit(thread)) {
    account(thread, end);
    if (is_all_halted(thread)) thread.totals.open = State::kHalted;
    thread.totals.open_ns = elapsed(thread.span.start, end);
    fold_cut(thread);
  } else {
    const Timestamp since = std::max(thread.mark, thread.totals.end);
    thread.totals.open_ns = elapsed(since, end);
    tally(thread, open_state(thread), since, end);
    // The mark of a span that waits to be handed out is its end.
    if (thread.phase != Thread::Phase::kEnded) thread.mark = std::max(thread.mark, end);
  }
  thread.totals.end = std::max(thread.mark, end);
}

// Of a thread that is gone, and of an exit that waits to be handed out, nothing lies there.
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

void ExitTracker::close(Timestamp end) {
  pass();
  closed_ = true;
  for (auto& entry : threads_.entries()) {
    if (entry.state.phase != Thread::Phase::kGone) carry(entry.state, end);
  }
}

void ExitTracker::on_new_thread(const Event& event, const NewThread& made) {
  if (threads_.find(made.child) != nullptr) return;
  if (Timestamp* created = created_.get(made.child, kMostThreads)) *created = event.at;
}

void ExitTracker::on_switch(const Event& event, const SchedSwitch& sched) {
  if (Thread* prev = threads_.find(sched.prev); prev != nullptr) {
    seen(*prev, event);
    const bool in_guest = prev->phase == Thread::Phase::kGuest;
    // While another CPU's events are being lost, the thread may run there unseen.
    if (event.at < latest_hole_end_) [[unlikely]] {
      for (std::size_t cpu = 0; cpu < hole_end_.size(); ++cpu) {
        if (cpu == event.cpu || hole_end_[cpu] <= event.at) continue;
        account(*prev, event.at);
        close_for_loss(*prev);
      }
      // Its kvm_exit may come yet.
      if (in_guest && prev->phase == Thread::Phase::kUnknown) prev->back = true;
    }
    leave_cpu(*prev, event, sched);
  }
  if (Thread* next = threads_.find(sched.next); next != nullptr) {
    seen(*next, event);
    // It comes without having left: nothing tells since when it was off the CPU.
    if (!next->off_cpu && (in_exit(*next) || next->phase == Thread::Phase::kGuest)) [[unlikely]] {
      if (next->phase == Thread::Phase::kExit && !next->is_cut) ++counters_.exit_without_entry;
      forget(*next, event.at);
      next->phase = Thread::Phase::kUnknown;
    }
    runs(*next, event.at);
    next->back = true;
  }
  // It may turn out to be a vCPU's.
  if (!hole_end_.empty() && event.cpu < kMostCpus) [[unlikely]] {
    if (event.cpu >= back_.size()) back_.resize(event.cpu + 1);
    back_[event.cpu] = sched.next;
  }
}

void ExitTracker::leave_cpu(Thread& thread, const Event& event, const SchedSwitch& sched) {
  if (thread.phase == Thread::Phase::kGuest) {
    end_guest_run(thread, event.at);
    begin(thread, event);
    thread.phase = Thread::Phase::kLeft;
  }
  account(thread, event.at);
  thread.off_cpu = true;
  thread.off_since = event.at;
  thread.asleep = !sched.runnable;
  thread.stopped = sched.left == SchedSwitch::Left::kStopped ||
                   (thread.vmm_stopped && thread.asleep && thread.in_user);
  if (sched.left == SchedSwitch::Left::kDead) [[unlikely]]
    return end_thread(thread, event.at);
  if (!in_exit(thread)) return;
  keep_from_now(thread, event.at);
  if (sched.runnable) {
    if (thread.span.preempted_by == ThreadId{}) thread.span.preempted_by = sched.next;
    return;
  }
  if (thread.slept == Timestamp() && !thread.in_user) thread.slept = event.at;
  if (state_of(thread) != State::kHalted) return;
  // It slept before, and will be woken again.
  if (thread.halted_from != Timestamp())
    recut(thread, thread.halted_from, event.at, State::kHalted);
  else
    thread.halted_from = event.at;
}

void ExitTracker::on_wakeup(const Event& event, ThreadId woken) {
  Thread* thread = threads_.find(woken);
  if (thread == nullptr || !thread->asleep) return;
  account(*thread, event.at);
  thread->asleep = thread->stopped = false;
  thread->woken = event.at;
}

// QEMU has stopped its vCPUs before it says so: each of its vCPUs that sleeps in user space then
// sleeps for that. It says that they run before it wakes them.
void ExitTracker::on_vm_state(const Event& event) {
  saw_vm_state_ = true;
  if (processes_ == nullptr || vmm_event_.running < 0) return;
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
    thread.vmm_stopped = vmm_event_.running == 0;
    if (i < unseen_.size()) unseen_[i] = false;
    if (!thread.vmm_stopped || !in_exit(thread) || !thread.in_user) continue;
    if (!thread.off_cpu || !thread.asleep || thread.stopped || !thread.off_since) continue;
    account(thread, event.at);
    recut(thread, *thread.off_since, event.at, State::kPaused);
    thread.stopped = true;
  }
}

void ExitTracker::on_lost(const Event& event, const Lost& lost) {
  if (event.cpu < kMostCpus) {
    if (event.cpu >= hole_end_.size()) hole_end_.resize(event.cpu + 1);
    hole_end_[event.cpu] = std::max(hole_end_[event.cpu], lost.to);
  }
  latest_hole_end_ = std::max(latest_hole_end_, lost.to);
  auto& entries = threads_.entries();
  unseen_.resize(entries.size());
  for (std::size_t i = 0; i < unseen_.size(); ++i) {
    if (unseen_[i]) continue;
    Thread& thread = entries[i].state;
    thread.vmm_stopped = false;  // that it runs again may be among them
    // Without sched_switch the recording does not tell where a thread went.
    if (thread.cpu != event.cpu && !thread.off_cpu && model_.sched_switch) continue;
    unseen_[i] = !hole_end_.empty();  // seen() looks then
    if (is_closed_for_loss(thread)) continue;
    account(thread, event.at);
    close_for_loss(thread);
  }
}

}  // namespace trapline
