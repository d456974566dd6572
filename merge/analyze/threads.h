// Follows every thread of the host through the scheduler. No other class reads sched_switch, the
// wake-ups or sched_migrate_task.
//
//              preempted                      slept, stopped, ended
//   kPreempted <──────── kRuns ──────────────────────────────────────> kAsleep, kStopped, kEnded
//            └──────────>  ^                                                   │
//              switched in └──────────────── kWoken <──────────────────────────┘
//                                                             woken
//
// Each event of the scheduler becomes ThreadChanges, which include what the thread did before. A
// loss on any CPU may hide a switch of any thread, so every thread is kUnknown from then on until
// it is switched in or out. A kUnknown thread stays so at a wake-up. The loss is a ThreadChange
// too: trackers forget what they conclude from events that it may hide.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "merge/model/event.h"
#include "merge/model/processes.h"
#include "merge/model/thread_table.h"

namespace trapline {

enum class RunState : std::uint8_t {
  kUnknown,
  kRuns,
  kPreempted,  // ready to run since it was switched out
  kWoken,      // ready to run since a wake-up
  kAsleep,
  kStopped,  // asleep because of a signal or a tracer
  kEnded,
};
[[nodiscard]] constexpr bool is_asleep(RunState state) { return state >= RunState::kAsleep; }

// One action of the scheduler on a thread, or a loss. Views are valid until the next event.
struct ThreadChange {
  enum class Kind : std::uint8_t {
    kLeaves,  // leaves its CPU, where `other` runs now
    kRuns,    // runs on the CPU that `other` left
    kWoken,   // is woken by `other`, or by an interrupt that hit `other`
    kMoves,   // moves to the queue of `to_cpu`
    kLost,    // all threads: events of `cpu` between `since` and `until` are lost
    kEnds,    // ends, in a recording that has no switches so far
  };
  Kind kind = Kind::kLeaves;
  RunState was = RunState::kUnknown;  // the state before; kUnknown also if Threads keeps no facts
  RunState now = RunState::kUnknown;  // for kLeaves, kRuns
  bool fair = true;                   // kLeaves: of the scheduling class that CPU quotas limit
  bool waking = false;                // kWoken: by sched_waking; sched_wakeup follows later
  bool in_loss = false;    // some CPU's events are being lost, so the thread may run there unseen
  bool to_unseen = false;  // to_cpu may not be recorded, so the thread may run there unseen
  bool lacks_cpu = false;  // kRuns, kMoves: some CPU is not recorded
  WakeContext context = WakeContext::kUnknown;
  InterruptLevel level = InterruptLevel::kNone;
  std::uint32_t cpu = 0;  // the event's CPU
  // kMoves: the new CPU; kWoken: the CPU that it wakes on or, if `waking`, ran on last.
  std::int32_t to_cpu{-1};
  ThreadId thread{}, other{};
  Timestamp at{}, since{};     // `since`: the beginning of `was`
  Timestamp until{};           // for kLost
  std::string_view name = {};  // kRuns: name of the thread
  [[nodiscard]] bool leaves() const { return kind == Kind::kLeaves; }
  [[nodiscard]] bool runs() const { return kind == Kind::kRuns; }
  [[nodiscard]] bool wakes() const { return kind == Kind::kWoken; }
  [[nodiscard]] bool loses() const { return kind == Kind::kLost; }
  [[nodiscard]] bool ends() const { return kind == Kind::kEnds; }
  [[nodiscard]] bool sleeps() const { return leaves() && is_asleep(now); }
  // Returns whether this is the first of the events about one wake-up.
  [[nodiscard]] bool ends_sleep() const { return wakes() && is_asleep(was); }
};

using ThreadChanges = std::span<const ThreadChange>;
[[nodiscard]] inline bool are_loss(ThreadChanges changes) {
  return !changes.empty() && changes.front().loses();
}

// The facts about a thread that the events since the last loss show.
struct ThreadFacts {
  std::string comm;  // the thread's name at its last switch, as the kernel stores it
  RunState state = RunState::kUnknown;
  Timestamp since{};           // beginning of the state
  Timestamp slept{}, woken{};  // the last sleep; `woken` is 0 while the sleep lasts
  std::uint64_t losses = 0;
};

// Finds out whether a recording has every sched_switch, or only those of some threads, as with
// `record --pid` and `trace-cmd record -P`. In the latter case it is not known how long a thread
// like X ran, nor which thread came next:
//
//   recorded        A ──> X                          Y ──> A
//   what happened   A ──> X ──> idle ──> Z ──> Y ──> idle ──> Y ──> A
//
// That a recording has only some switches is known from the session, or from repeated switches on a
// CPU that do not follow each other. Two kinds of such switches do not count: those of the
// recorder, which leaves itself out, and those of a CPU that goes offline, whose switch from the
// stopper thread to the idle thread has no event. Every switch of a thread is recorded if the
// thread belongs to the session's process, or if a switch between it and an idle thread is
// recorded, since idle threads belong to no process.
class RecordedSwitches {
 public:
  // Returns whether a vCPU runs on the CPU, by events that are not of the scheduler.
  using RunsVcpu = std::function<bool(std::uint32_t)>;
  explicit RecordedSwitches(RunsVcpu runs_vcpu = {}) : runs_vcpu_(std::move(runs_vcpu)) {}

  // Takes each thread that a CPU switches to, in order.
  void on_run(const ThreadChange& change, const Processes& processes);
  // Forgets the thread that the CPU last switched to: a loss may hide a later switch.
  void on_lost(std::uint32_t cpu);
  // Takes that `change`, an event of its CPU, brings a thread to to_cpu. Returns whether the thread
  // may run there unseen: no event of that CPU was recorded so far, so it may not be recorded.
  // `since_begin`: it goes there, or was there, since the recording began.
  [[nodiscard]] bool may_hide(const ThreadChange& change, bool since_begin = true) {
    const auto to = static_cast<std::uint32_t>(change.to_cpu);
    const bool is_new = (to >= cpus_.size() || !cpus_[to].seen) && to < kMostCpus;
    return is_new && hides(change, to, since_begin);
  }
  // Returns the CPUs for which may_hide() was true at least kMostWait before `end` and that have
  // had no event since: they are not recorded.
  [[nodiscard]] std::vector<std::uint32_t> unseen(Timestamp end) const;
  [[nodiscard]] bool lacks_cpu(Timestamp at) const {
    return !unseen_.empty() && !selected_ && !unseen(at).empty();
  }

  // Returns whether the CPU runs its migration/N thread, which passes on wake-ups of other CPUs.
  [[nodiscard]] bool runs_stopper(std::uint32_t cpu) const {
    return cpu < cpus_.size() && cpus_[cpu].stopper;
  }
  // Returns the thread that the last event's CPU had switched to, if another thread left the CPU in
  // the event: the switches in between are not recorded.
  [[nodiscard]] const std::optional<ThreadId>& skipped() const { return skipped_; }
  // Returns whether every switch of the thread is recorded.
  [[nodiscard]] bool has_all_of(ThreadId thread) const {
    return !selected_ || whole_.contains(thread);
  }

 private:
  static constexpr std::size_t kMostThreads = 1u << 12;
  static constexpr std::uint32_t kMostCpus = 1u << 12;
  // A few skips are normal: when tracing is switched off and on, and when a thread takes its
  // process's id because it executes a program.
  static constexpr std::uint64_t kLeastSkips = 2, kMostBetweenSkips = 1000;
  static constexpr std::uint64_t kMostWait = 10'000'000;  // ns that a thread may wait for its CPU
  struct Skip {
    ThreadId to{}, from{};
  };
  struct Cpu {
    std::optional<ThreadId> thread;
    bool stopper = false;  // `thread` is the CPU's migration/N
    bool seen = false;     // the recording has an event of the CPU
    std::uint64_t switches = 0, skips = 0;
    Skip first;
  };
  Cpu* cpu_of(std::uint32_t cpu);
  bool hides(const ThreadChange& change, std::uint32_t to, bool since_begin);
  static bool is_stopper(std::string_view comm, std::uint32_t cpu);
  void note_skip(Cpu& cpu, const Skip& skip);
  void note(ThreadId thread, bool surely, const Processes& processes);

  std::vector<Cpu> cpus_;
  std::map<std::uint32_t, Timestamp> unseen_;  // since when threads have been there
  RunsVcpu runs_vcpu_;                         // may be empty
  std::optional<ThreadId> skipped_;
  bool selected_ = false;
  std::unordered_set<ThreadId> whole_;
};

class Threads {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16;
  // The payloads that may change a thread.
  static constexpr std::uint32_t kTakes = kPayloads<SchedSwitch, SchedWakeup, HostEvent, Lost>;

  // Borrows `processes`. Without `keeps_facts`, ThreadChange::was is not known; without
  // `processes`, there are neither facts nor recorded switches.
  explicit Threads(const Processes* processes, bool keeps_facts = true,
                   RecordedSwitches::RunsVcpu runs_vcpu = {})
      : processes_(processes),
        keeps_facts_(processes != nullptr && keeps_facts),
        switches_(std::move(runs_vcpu)) {}

  // Takes every event in order. A switch is two changes: one thread leaves, then another runs.
  // Tasks of guests have no facts. The result is valid until the next call.
  [[nodiscard]] ThreadChanges on(const Event& event) {
    return is_in(kTakes, event.payload) ? changes_of(event) : ThreadChanges();
  }
  // Returns the thread's name at that time, from when it was last switched in; empty: not known.
  [[nodiscard]] std::string_view name_at(ThreadId thread, Timestamp at) const;
  // Returns whether the thread has had one name throughout the recording so far.
  [[nodiscard]] bool has_one_name(ThreadId thread) const {
    return old_names_count_ <= kMostOldNames && !old_names_.contains(thread);
  }
  // Returns which switches are recorded, as far as the last event shows.
  [[nodiscard]] const RecordedSwitches& switches() const { return switches_; }
  // Returns whether a switch showed the last thread with the kernel's id.
  [[nodiscard]] bool has_switched(ThreadId id) const {
    const auto tid = static_cast<std::size_t>(tid_of(id));
    return tid < switched_.size() && switched_[tid];
  }
  // Takes that a thread with the kernel's id begins. Returns has_switched() of the one before.
  [[nodiscard]] bool begin(ThreadId id) {
    const bool is_used = has_switched(id);
    if (is_used) switched_[static_cast<std::size_t>(tid_of(id))] = false;
    return is_used;
  }
  // Returns the facts about a thread; nullptr if it has had no event since the last loss.
  [[nodiscard]] const ThreadFacts* find(ThreadId thread) const {
    const ThreadFacts* facts = facts_.find(thread);
    return facts != nullptr && facts->losses == losses_ ? facts : nullptr;
  }

 private:
  static constexpr std::size_t kMostOldNames = 1u << 16;
  struct OldName {
    Timestamp until;
    std::string text;
  };
  [[nodiscard]] ThreadChanges changes_of(const Event& event);
  void note_switched(ThreadId thread);
  void end_name(ThreadId thread, Timestamp at, std::string_view name);
  void note_switch(ThreadChange& change);
  void note_wakeup(ThreadChange& change);

  const Processes* processes_;
  bool keeps_facts_;
  RecordedSwitches switches_;
  // By the kernel's id: whether the id's last thread was switched in or out. Every pass follows
  // this, so that all passes over a recording tell apart the same threads.
  std::vector<bool> switched_;
  ThreadTable<ThreadFacts> facts_;
  std::unordered_map<ThreadId, std::vector<OldName>> old_names_;  // in order of time
  std::size_t old_names_count_ = 0;
  std::uint64_t losses_ = 0;
  Timestamp loss_end_;  // end of the latest loss
  std::array<ThreadChange, 2> changes_;
};

}  // namespace trapline
