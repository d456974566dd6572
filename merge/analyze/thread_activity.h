// Tells what any thread of the host did recently: it ran, was ready to run, or slept; and which of
// the VMM's events it wrote.
//
//   switched in ──> ran ──┬─ switched out, runnable ──> ready ──> switched in
//                         └─ switched out, asleep ────> slept ──> woken ──> ready ──> switched in
//
// Only the latest kMost changes and events of a thread are kept. Times before that, before the
// thread's first switch, or hidden by a loss are not known.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "merge/analyze/threads.h"
#include "merge/model/names.h"
#include "merge/model/thread_table.h"

namespace trapline {

struct Activity {
  std::uint64_t ran_ns = 0, ready_ns = 0, slept_ns = 0, unknown_ns = 0;
  struct Count {
    NameId name = kNoName;
    std::uint64_t count = 0;
  };
  std::vector<Count> events;  // the VMM's events, in the order in which they were first seen
  void merge(const Activity& other);
};

class ThreadActivity {
 public:
  static constexpr std::size_t kMost = 256, kMostThreads = 1u << 12;

  // Takes an event of the host that `switches` has already taken. `vmm_event` is the VMM's event in
  // it, or kNoName.
  void on(const Event& event, ThreadChanges changes, NameId vmm_event,
          const RecordedSwitches& switches);
  // Returns the thread's times, which sum to the interval.
  [[nodiscard]] Activity between(ThreadId thread, Timestamp begin, Timestamp end) const;

 private:
  struct Step {
    Timestamp at;
    RunState state = RunState::kUnknown;  // from this step on
    NameId event = kNoName;               // the VMM's event; kNoName: a change of state
  };
  void add(ThreadId thread, Timestamp at, RunState state, NameId event = kNoName);
  void on(const ThreadChange& change, const RecordedSwitches& switches);

  ThreadTable<std::deque<Step>> threads_;  // the latest steps
};

}  // namespace trapline
