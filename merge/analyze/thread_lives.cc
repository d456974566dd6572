#include "merge/analyze/thread_lives.h"

#include <algorithm>

namespace trapline {

// Returns the next thread with the id. The last life that there is a number for stays.
ThreadId ThreadLives::next(ThreadId id) {
  const ThreadId before = now(id);
  ThreadId* last = now_.get(id, kMost);
  if (last == nullptr) return id;
  return *last = thread_of(tid_of(id), std::min(life_of(before) + 1, kLastLife));
}

const Event& ThreadLives::of(const Event& event) {
  event_ = event;
  event_.thread = now(event.thread);
  if (is_guest(event.machine)) return event_;
  if (auto* sched = std::get_if<SchedSwitch>(&event_.payload)) {
    sched->prev = now(sched->prev);
    sched->next = now(sched->next);
  } else if (auto* wakeup = std::get_if<SchedWakeup>(&event_.payload)) {
    wakeup->thread = now(wakeup->thread);
  } else if (auto* host = std::get_if<HostEvent>(&event_.payload)) {
    if (host->step == HostStep::kMigrate)
      host->thread = static_cast<std::int32_t>(now(ThreadId{host->thread}));
  }
  return event_;
}

const Event& ThreadLives::born(const Event& event, bool is_used) {
  event_ = event;
  ThreadId& child = std::get<NewThread>(event_.payload).child;
  if (child != ThreadId{}) child = is_used ? next(child) : now(child);
  return event_;
}

}  // namespace trapline
