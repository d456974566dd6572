// Follows every thread of the host through the scheduler: no other class reads sched_switch, the
// wake-ups or sched_migrate_task.
//
//              preempted                      slept, stopped, ended
//   kPreempted <──────── kRuns ──────────────────────────────────────> kAsleep, kStopped, kEnded
//            └──────────>  ^                                                   │
//              switched in └──────────────── kWoken <──────────────────────────┘
//                                                             woken
//
// Each such event becomes ThreadChanges, which say what the thread did before. One rule for losses:
// a loss on any CPU may hide a switch of any thread, so each thread is kUnknown from then on until
// it is switched in or out. A wake-up of a kUnknown thread leaves it so.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
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
  [[nodiscard]] bool leaves() const { return kind == Kind::kLeaves; }
  [[nodiscard]] bool runs() const { return kind == Kind::kRuns; }
  [[nodiscard]] bool wakes() const { return kind == Kind::kWoken; }
  [[nodiscard]] bool sleeps() const { return leaves() && is_asleep(now); }
  // True for the first of the events that tell of one wake-up.
  [[nodiscard]] bool ends_sleep() const { return wakes() && is_asleep(was); }
};

using ThreadChanges = std::span<const ThreadChange>;

// A thread as far as the events since the last loss tell.
struct ThreadFacts {
  // Of its last switch, as the kernel keeps it.
  struct Comm {
    std::array<char, 15> text{};
    std::uint8_t size = 0;
    [[nodiscard]] std::string_view view() const { return {text.data(), size}; }
  };
  Comm comm;
  RunState state = RunState::kUnknown;
  Timestamp since{};           // of the state
  Timestamp slept{}, woken{};  // its last sleep; woken is 0 while it lasts
  std::uint64_t losses = 0;
};

// Whether a recording holds each sched_switch, or only those of some threads, as of `record --pid`
// and `trace-cmd record -P`. Then nothing tells how long another thread ran that came after one of
// them, nor who came after it:
//
//   recorded        A ──> X                          Y ──> A
//   what happened   A ──> X ──> idle ──> Z ──> Y ──> idle ──> Y ──> A
//
// Known from the session, or where the switches of a CPU do not follow each other time and again:
// other than in those of the recorder, which leaves itself out, and of a CPU that goes offline: its
// way from the stopper thread to the idle one has no event. Of a thread each switch is recorded
// where it is of the session's process, or where one between it and an idle thread is recorded,
// which is of no process.
class RecordedSwitches {
 public:
  // Each thread that a CPU switches to, in order.
  void on_run(const ThreadChange& change, const Processes& processes);
  // What the CPU switched to last is not known any more.
  void on_lost(std::uint32_t cpu);

  // Whether the CPU runs its migration/N: it passes on wake-ups of other CPUs.
  [[nodiscard]] bool runs_stopper(std::uint32_t cpu) const {
    return cpu < cpus_.size() && cpus_[cpu].stopper;
  }
  // The thread that the last event's CPU had switched to, where another one left it: one whose
  // switches are not recorded.
  [[nodiscard]] const std::optional<ThreadId>& skipped() const { return skipped_; }
  // Whether each switch of the thread is recorded.
  [[nodiscard]] bool has_all_of(ThreadId thread) const {
    return !selected_ || whole_.contains(thread);
  }

 private:
  static constexpr std::size_t kMostThreads = 1u << 12;
  static constexpr std::uint32_t kMostCpus = 1u << 12;
  // Tracing that is switched off and on skips some, and so does a thread that takes its process's
  // id when it executes a program.
  static constexpr std::uint64_t kLeastSkips = 2, kMostBetweenSkips = 1000;
  struct Skip {
    ThreadId to{}, from{};
  };
  struct Cpu {
    std::optional<ThreadId> thread;
    bool stopper = false;  // `thread` is the CPU's migration/N
    std::uint64_t switches = 0, skips = 0;
    Skip first;
  };
  static bool is_stopper(std::string_view comm, std::uint32_t cpu);
  void note_skip(Cpu& cpu, const Skip& skip);
  void note(ThreadId thread, bool surely, const Processes& processes);

  std::vector<Cpu> cpus_;
  std::optional<ThreadId> skipped_;
  bool selected_ = false;
  std::unordered_set<ThreadId> whole_;
};

class Threads {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16;

  // `processes` are borrowed. Without them no facts are kept, and ThreadChanges do not say what was
  // before.
  explicit Threads(const Processes* processes) : processes_(processes) {}

  // Every event, in order. A switch is two changes: a thread leaves, then another runs. Guests'
  // tasks have no facts. The result is valid until the next call.
  [[nodiscard]] ThreadChanges on(const Event& event) {
    const bool changes = is_any_of<SchedSwitch, SchedWakeup, HostEvent, Lost>(event.payload);
    return changes ? changes_of(event) : ThreadChanges();
  }
  // task_newtask: a thread before it that had its id is another one.
  void on_new(ThreadId thread, Timestamp at);
  // What the thread was called then: as it was switched in last. Empty: not known.
  [[nodiscard]] std::string_view name_at(ThreadId thread, Timestamp at) const;
  // Whether it has one name in all of the recording so far.
  [[nodiscard]] bool has_one_name(ThreadId thread) const { return !old_names_.contains(thread); }
  // Up to the last event.
  [[nodiscard]] const RecordedSwitches& switches() const { return switches_; }
  // Returns nullptr for a thread without an event since the last loss.
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
  void end_name(ThreadId thread, Timestamp at, std::string_view name);
  void note_switch(ThreadChange& change);
  void note_wakeup(ThreadChange& change);

  const Processes* processes_;
  RecordedSwitches switches_;
  ThreadTable<ThreadFacts> facts_;
  std::unordered_map<ThreadId, std::vector<OldName>> old_names_;  // in order of time
  std::size_t old_names_count_ = 0;
  std::uint64_t losses_ = 0;
  Timestamp loss_end_;  // the latest
  std::array<ThreadChange, 2> changes_;
};

}  // namespace trapline
