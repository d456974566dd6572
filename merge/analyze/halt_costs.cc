#include "merge/analyze/halt_costs.h"

#include <algorithm>

namespace trapline {

void HaltCosts::forget(Thread& thread) {
  thread.woken.reset();
  thread.last_woken.reset();
  thread.first_slept.reset();
}

// Of a halt of `ns` that cannot have polled longer than `most`, where that is known: KVM polls for
// the vCPU's interval, or until another thread wants the CPU.
void HaltCosts::add_poll(Thread& thread, std::optional<std::uint64_t> most, std::uint64_t ns) {
  if (const auto interval = thread.interval_before ? thread.interval_before : thread.interval) {
    thread.polling_ns += std::min(*interval, most.value_or(ns));
  } else if (most) {
    thread.polling_at_most_ns += *most;
    ++thread.halts_bounded;
  } else {
    ++thread.halts_unknown;
  }
}

// Before the first change, the interval was what that one says.
void HaltCosts::on_interval(Thread& thread, const KvmHaltPoll& poll) {
  held_.add(thread);
  if (!thread.interval && poll.before == 0)
    thread.polling_at_most_ns = thread.halts_bounded = thread.halts_unknown = 0;
  thread.interval_before = poll.before;
  thread.interval = poll.now;
  thread.replays.on_change(poll.before, poll.now);
}

// The end of a halt; kvm_halt_poll_ns, which tells the interval of the next, comes before it.
void HaltCosts::on_wakeup(Thread& thread, const Event& event, const KvmVcpuWakeup& wakeup) {
  const Timestamp begin(event.at.ns() - std::min(wakeup.ns, event.at.ns()));
  std::optional<std::uint64_t> most;
  if (!wakeup.waited) {
    most = wakeup.ns;
  } else if (thread.first_slept && *thread.first_slept >= begin) {
    most = std::min(elapsed(begin, *thread.first_slept), wakeup.ns);
  }
  add_poll(thread, most, wakeup.ns);
  if (!wakeup.waited) {
    const auto interval = thread.interval_before ? thread.interval_before : thread.interval;
    thread.replays.add({wakeup.ns, 0, false, interval == std::uint64_t{0}});
  } else if (thread.last_woken && *thread.last_woken >= begin) {
    const std::uint64_t wake = std::min(elapsed(begin, *thread.last_woken), wakeup.ns);
    thread.replays.add({wake, wakeup.ns - wake, true, false});
  } else {
    ++thread.wakes_unknown;
  }
  thread.last_woken.reset();
  thread.first_slept.reset();
  thread.interval_before.reset();
}

void HaltCosts::on_switch(const Event& event, const SchedSwitch& sched) {
  if (Thread* prev = threads_.find(sched.prev)) {
    prev->asleep = !sched.runnable;
    if (prev->asleep) held_.add(*prev);
    prev->woken.reset();
    if (prev->asleep && !prev->first_slept) prev->first_slept = event.at;
  }
  Thread* next = threads_.find(sched.next);
  if (next == nullptr) return;
  next->woken.reset();
  next->asleep = false;
}

void HaltCosts::on_exit(const ExitSpan& exit) {
  if (!exit.halt) return;
  if (Thread* thread = threads_.get(exit.thread, kMostThreads)) ++thread->halt_exits;
}

void HaltCosts::on(const Event& event) {
  if (const auto* wakeup = std::get_if<KvmVcpuWakeup>(&event.payload)) {
    Thread* thread = threads_.get(event.thread, kMostThreads);
    if (thread != nullptr) on_wakeup(*thread, event, *wakeup);
  } else if (std::holds_alternative<KvmExit>(event.payload)) {
    Thread* thread = threads_.get(event.thread, kMostThreads);
    if (thread != nullptr) forget(*thread);
  } else if (const auto* poll = std::get_if<KvmHaltPoll>(&event.payload)) {
    Thread* thread = threads_.get(event.thread, kMostThreads);
    if (thread != nullptr) on_interval(*thread, *poll);
  } else if (const auto* woken = std::get_if<SchedWakeup>(&event.payload)) {
    // The first of waking and wakeup counts.
    Thread* thread = threads_.find(woken->thread);
    if (thread == nullptr || !thread->asleep || thread->woken) return;
    thread->woken = thread->last_woken = event.at;
  } else if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) {
    on_switch(event, *sched);
  } else if (std::holds_alternative<Lost>(event.payload)) {
    held_.end([](Thread& thread) {
      forget(thread);
      thread.asleep = false;
      thread.interval.reset();
      thread.interval_before.reset();
    });
  }
}

}  // namespace trapline
