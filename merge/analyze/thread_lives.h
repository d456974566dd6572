// Tells apart the threads that had one id, one after the other, so that no tracker takes a thread's
// past for another one's.
//
//   thread 300 ──> task_newtask of 300 ──> the second thread 300 ──> …
//
// If task_newtask is not recorded, a thread begins when its id is woken or switched in after the
// last switch of an earlier thread. A thread that executes a program takes its process's id when
// the process's first thread has ended: such an id is not switched in first, and stays the same
// thread.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "merge/model/event.h"

namespace trapline {

class ThreadLives {
 public:
  // Limit of ids. Threads that had a further id, one after the other, count as one thread.
  static constexpr std::size_t kMost = 1u << 16;

  // Returns whether of() may return another thread than the event names.
  [[nodiscard]] bool any() const { return any_; }
  // Returns the event of the host or a guest with its threads of the host told apart, valid until
  // the next call.
  [[nodiscard]] const Event& of(const Event& event);
  // Takes task_newtask of the event's child. Returns the event with the new thread as its child,
  // valid until the next call. `is_used`: earlier events showed the last thread with this id.
  [[nodiscard]] const Event& born(const Event& event, bool is_used);
  // Takes the last switch of a thread.
  void end(ThreadId thread) {
    if (knows_births_ || ended_.size() >= kMost || thread == ThreadId{}) return;
    ended_.insert(thread);
    any_ = true;
  }
  // Returns the id whose last thread began in of(), without task_newtask, since the last call.
  [[nodiscard]] std::optional<ThreadId> take_unborn() { return std::exchange(unborn_, {}); }
  // Returns the last thread so far that has the kernel's id.
  [[nodiscard]] ThreadId now(ThreadId id) const {
    const auto found = now_.find(id);
    return found == now_.end() ? id : found->second;
  }

 private:
  ThreadId next(ThreadId id);
  // Returns the thread with the id that is woken or switched in.
  ThreadId starts(ThreadId id) {
    const ThreadId thread = now(id);
    if (ended_.erase(thread) == 0) return thread;
    unborn_ = id;
    return next(id);
  }

  std::unordered_map<ThreadId, ThreadId> now_;  // by the kernel's id, if it had several threads
  std::unordered_set<ThreadId> ended_;          // whose ids the next thread may get
  std::optional<ThreadId> unborn_;
  bool knows_births_ = false;  // task_newtask is recorded
  bool any_ = false;
  Event event_;
};

}  // namespace trapline
