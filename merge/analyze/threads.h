// Follows every thread of the host through the scheduler: no other class reads sched_switch, the wake-ups or
// sched_migrate_task.
//
//              preempted                      slept, stopped, ended
//   kPreempted <──────── kRuns ──────────────────────────────────────> kAsleep, kStopped, kEnded
//            └──────────>  ^                                                   │
//              switched in └──────────────── kWoken <──────────────────────────┘
//                                                             woken
//
// Each such event becomes ThreadChanges, which say what the thread did before: trackers keep no state of their own for that.
// One rule for losses: a loss on any CPU may hide a switch of any thread, so each thread is kUnknown from then on until it
// is switched in or out. A wake-up of a kUnknown thread leaves it so.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "merge/model/event.h"
#include "merge/model/thread_table.h"

namespace trapline {

enum class RunState : std::uint8_t {
  kUnknown,
  kRuns,
  kPreempted,  // ready to run since it was switched out
  kWoken,      // ready to run since a wake-up
  kAsleep,
  kStopped,  // asleep: by a signal or a tracer
  kEnded,
};
[[nodiscard]] constexpr bool is_asleep(RunState state) { return state >= RunState::kAsleep; }

// One thing that the scheduler did with a thread. Views are valid until the next event.
struct ThreadChange {
  enum class Kind : std::uint8_t {
    kLeaves,  // its CPU, where `other` runs now
    kRuns,    // on the CPU that `other` left
    kWoken,   // by `other`, or by an interrupt that hit `other`
    kMoves,   // to the queue of `to_cpu`
  };
  Kind kind = Kind::kLeaves;
  RunState was = RunState::kUnknown;  // before; kUnknown as well where Threads keeps no facts
  RunState now = RunState::kUnknown;  // kLeaves, kRuns
  bool fair = true;                   // kLeaves: of the class to which CPU quotas apply
  bool waking = false;                // kWoken: by sched_waking; sched_wakeup comes later
  bool in_loss = false;               // some CPU's events are being lost: it may run there unseen
  WakeContext context = WakeContext::kUnknown;
  InterruptLevel level = InterruptLevel::kNone;
  std::uint32_t cpu = 0;    // of the event
  std::int32_t to_cpu{-1};  // kMoves; kWoken: it is woken on; with `waking`: it ran on last
  ThreadId thread{}, other{};
  Timestamp at{}, since{};     // since: of `was`
  std::string_view name = {};  // kRuns: the thread's
  [[nodiscard]] bool sleeps() const { return kind == Kind::kLeaves && is_asleep(now); }
  // True for the first of the events that tell of one wake-up.
  [[nodiscard]] bool ends_sleep() const { return kind == Kind::kWoken && is_asleep(was); }
};

// A thread as far as the events since the last loss tell.
struct ThreadFacts {
  RunState state = RunState::kUnknown;
  std::uint32_t life = 0;      // threads that had its id before
  Timestamp since{};           // of the state
  Timestamp slept{}, woken{};  // its last sleep; woken is 0 while it lasts
  std::uint64_t losses = 0;
};

class Threads {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16;

  // `keeps_facts`: else ThreadChanges do not say what was before.
  explicit Threads(bool keeps_facts) : keeps_facts_(keeps_facts) {}

  // Every event, in order. A switch is two changes: a thread leaves, then another runs. No facts are kept of guests' tasks.
  // Valid until the next call.
  [[nodiscard]] std::span<const ThreadChange> on(const Event& event) {
    if (!is_any_of<SchedSwitch, SchedWakeup, HostEvent, Lost>(event.payload)) [[likely]]
      return {};
    return changes_of(event);
  }
  // Events were left out.
  void forget() { ++losses_; }
  // Returns nullptr for a thread without an event since the last loss.
  [[nodiscard]] const ThreadFacts* find(ThreadId thread) const {
    const ThreadFacts* facts = facts_.find(thread);
    return facts != nullptr && facts->losses == losses_ ? facts : nullptr;
  }

 private:
  [[nodiscard]] std::span<const ThreadChange> changes_of(const Event& event);
  void note_switch(ThreadChange& change);
  void note_wakeup(ThreadChange& change);

  bool keeps_facts_;
  ThreadTable<ThreadFacts> facts_;
  std::uint64_t losses_ = 0;
  Timestamp loss_end_;  // the latest
  std::array<ThreadChange, 2> changes_;
};

}  // namespace trapline
