// What the halts of vCPU threads cost and would cost: CPU time spent on polling, and the halts
// under other values of halt_poll_ns.
#pragma once

#include <optional>

#include "merge/analyze/halt_replay.h"
#include "merge/model/event.h"
#include "merge/model/exit_span.h"
#include "merge/model/thread_table.h"

namespace trapline {

class HaltCosts {
 public:
  struct Thread {
    std::uint64_t halt_exits = 0;  // ended exits that are halts
    std::uint64_t polling_ns = 0;  // spent on polls
    // Of halts before KVM told the vCPU's interval: the most that polling can have cost, and how
    // many they are.
    std::uint64_t polling_at_most_ns = 0, halts_bounded = 0;
    std::uint64_t halts_unknown = 0;  // of which nothing tells how long KVM polled
    std::uint64_t wakes_unknown = 0;  // sleeps that no replay has: what ended them was not recorded
    HaltReplays replays;
    // Of the open halt.
    std::optional<Timestamp> woken, last_woken, first_slept;
    bool asleep = false;
    bool held = false;  // asleep, or told its interval, since the last loss
    std::optional<std::uint64_t> interval, interval_before;  // KVM's, of the vCPU
  };
  [[nodiscard]] static bool looks_at(const Payload& payload) {
    return is_any_of<KvmVcpuWakeup, KvmExit, KvmHaltPoll, SchedWakeup, SchedSwitch, Lost>(payload);
  }
  void on(const Event& event);
  // An exit that ended.
  void on_exit(const ExitSpan& exit);
  // Nothing of a thread without a halt or an exit.
  [[nodiscard]] const Thread* find(ThreadId thread) const { return threads_.find(thread); }

 private:
  static constexpr std::size_t kMostThreads = 1u << 16;
  void on_wakeup(Thread& thread, const Event& event, const KvmVcpuWakeup& wakeup);
  void on_switch(const Event& event, const SchedSwitch& sched);
  static void add_poll(Thread& thread, std::optional<std::uint64_t> most_ns, std::uint64_t ns);
  void on_interval(Thread& thread, const KvmHaltPoll& poll);
  static void forget(Thread& thread);

  ThreadTable<Thread> threads_;
  HeldStates<Thread> held_;
};

}  // namespace trapline
