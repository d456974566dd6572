// Tells apart the threads that had one id, one after the other, so that no tracker takes a thread's
// past for another one's.
//
//   thread 300 ──> task_newtask of 300 ──> the second thread 300 ──> …
//
// Without task_newtask, all threads with an id count as one.
#pragma once

#include <cstdint>

#include "merge/model/event.h"
#include "merge/model/thread_table.h"

namespace trapline {

class ThreadLives {
 public:
  // Limit of ids. Threads that had a further id, one after the other, count as one thread.
  static constexpr std::size_t kMost = 1u << 16;

  // Returns whether no id has had several threads.
  [[nodiscard]] bool empty() const { return now_.entries().empty(); }
  // Returns whether of() may return another thread than the event names.
  [[nodiscard]] bool concerns(const Event& event) {
    if (empty()) [[likely]]
      return false;
    const auto has = [this](ThreadId thread) { return now_.find(thread) != nullptr; };
    if (has(event.thread)) return true;
    if (const auto* sched = std::get_if<SchedSwitch>(&event.payload))
      return has(sched->prev) || has(sched->next);
    if (const auto* wakeup = std::get_if<SchedWakeup>(&event.payload)) return has(wakeup->thread);
    const auto* host = std::get_if<HostEvent>(&event.payload);
    return host != nullptr && host->step == HostStep::kMigrate && has(ThreadId{host->thread});
  }
  // Returns the event of the host or a guest with its threads of the host told apart, valid until
  // the next call.
  [[nodiscard]] const Event& of(const Event& event);
  // Takes task_newtask of the event's child. Returns the event with the new thread as its child,
  // valid until the next call. `is_used`: earlier events showed the last thread with this id.
  [[nodiscard]] const Event& born(const Event& event, bool is_used);
  // Returns the last thread so far that has the kernel's id.
  [[nodiscard]] ThreadId now(ThreadId id) const {
    const ThreadId* now = now_.find(id);
    return now == nullptr ? id : *now;
  }

 private:
  ThreadId next(ThreadId id);

  ThreadTable<ThreadId> now_;  // by the kernel's id, if it had several threads
  Event event_;
};

}  // namespace trapline
