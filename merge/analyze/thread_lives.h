// Tells apart the threads that had one id, one after the other, so that no tracker takes a thread's
// past for another one's.
//
//   thread 300 ──> task_newtask of 300 ──> the second thread 300 ──> …
//
// Without task_newtask, all threads with an id count as one.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "merge/model/event.h"

namespace trapline {

class ThreadLives {
 public:
  // Limit of ids. Threads that had a further id, one after the other, count as one thread.
  static constexpr std::size_t kMost = 1u << 16;

  // Returns whether of() may return another thread than the event names.
  [[nodiscard]] bool concerns(const Event& event) const {
    if (now_.empty()) [[likely]]
      return false;
    if (may_have(event.thread)) return true;
    if (const auto* sched = std::get_if<SchedSwitch>(&event.payload))
      return may_have(sched->prev) || may_have(sched->next);
    if (const auto* wakeup = std::get_if<SchedWakeup>(&event.payload))
      return may_have(wakeup->thread);
    const auto* host = std::get_if<HostEvent>(&event.payload);
    return host != nullptr && host->step == HostStep::kMigrate && may_have(ThreadId{host->thread});
  }
  // Returns the event of the host or a guest with its threads of the host told apart, valid until
  // the next call.
  [[nodiscard]] const Event& of(const Event& event);
  // Takes task_newtask of the event's child. Returns the event with the new thread as its child,
  // valid until the next call. `is_used`: earlier events showed the last thread with this id.
  [[nodiscard]] const Event& born(const Event& event, bool is_used);
  // Returns the last thread so far that has the kernel's id.
  [[nodiscard]] ThreadId now(ThreadId id) const {
    const auto found = now_.find(id);
    return found == now_.end() ? id : found->second;
  }

 private:
  static constexpr std::size_t kWords = 1024, kWordBits = 64;
  // Returns whether the thread's id is perhaps in now_; most ids are not.
  [[nodiscard]] bool may_have(ThreadId thread) const {
    const auto id = static_cast<std::uint32_t>(thread);
    return (noted_[id / kWordBits % kWords] >> (id % kWordBits) & 1) != 0;
  }
  ThreadId next(ThreadId id);

  std::unordered_map<ThreadId, ThreadId> now_;  // by the kernel's id, if it had several threads
  std::array<std::uint64_t, kWords> noted_{};   // bits by the lowest bits of the ids in now_
  Event event_;
};

}  // namespace trapline
