// Halts of vCPU threads: polls that won (an interrupt came while KVM polled), polls that were lost
// (the thread slept), and how long a woken thread waited until it ran.
#pragma once

#include <optional>

#include "merge/model/event.h"
#include "merge/model/histogram.h"
#include "merge/model/thread_table.h"

namespace trapline {

class HaltTracker {
 public:
  struct Thread {
    Histogram polls_won, slept, wake_to_run;
    std::uint64_t invalid = 0;  // halts whose time KVM itself calls invalid
    std::optional<Timestamp> woken;
    bool asleep = false;
    bool held = false;  // among asleep_
  };
  [[nodiscard]] static bool looks_at(const Payload& payload) {
    return is_any_of<KvmVcpuWakeup, KvmExit, SchedWakeup, SchedSwitch, Lost>(payload);
  }
  void on(const Event& event);
  [[nodiscard]] const std::deque<ThreadTable<Thread>::Entry>& threads() const {
    return threads_.entries();
  }

 private:
  static constexpr std::size_t kMostThreads = 1u << 16;
  ThreadTable<Thread> threads_;
  HeldStates<Thread> asleep_;  // at some time since the last loss
};

}  // namespace trapline
