#include "merge/analyze/halt_tracker.h"

namespace trapline {

void HaltTracker::on(const Event& event) {
  if (const auto* wakeup = std::get_if<KvmVcpuWakeup>(&event.payload)) {
    Thread* thread = threads_.get(event.thread, kMostThreads);
    if (thread == nullptr) return;
    if (!wakeup->valid) ++thread->invalid;
    (wakeup->waited ? thread->slept : thread->polls_won).add(wakeup->ns);
  } else if (std::holds_alternative<KvmExit>(event.payload)) {
    (void)threads_.get(event.thread, kMostThreads);  // a vCPU that never halts is told of too
  } else if (const auto* woken = std::get_if<SchedWakeup>(&event.payload)) {
    // The first of waking and wakeup counts.
    Thread* thread = threads_.find(woken->thread);
    if (thread != nullptr && thread->asleep && !thread->woken) thread->woken = event.at;
  } else if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) {
    if (Thread* prev = threads_.find(sched->prev)) {
      prev->asleep = !sched->runnable;
      if (prev->asleep) asleep_.add(*prev);
      prev->woken.reset();
    }
    Thread* next = threads_.find(sched->next);
    if (next == nullptr) return;
    if (next->woken) next->wake_to_run.add(elapsed(*next->woken, event.at));
    next->woken.reset();
    next->asleep = false;
  } else if (std::holds_alternative<Lost>(event.payload)) {
    asleep_.end([](Thread& thread) {
      thread.woken.reset();
      thread.asleep = false;
    });
  }
}

}  // namespace trapline
