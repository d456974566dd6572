// What any thread of the host did lately: ran, was ready to run, or slept; and the VMM's events
// that it wrote.
//
//   switched in ──> ran ──┬─ switched out, runnable ──> ready ──> switched in
//                         └─ switched out, asleep ────> slept ──> woken ──> ready ──> switched in
//
// The latest kMost changes and events of a thread are kept. What is longer ago, before the thread's
// first switch, or hidden by a loss is not known.
#pragma once

#include <cstdint>
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
  std::vector<Count> events;  // the VMM's, in order of first sight
  void merge(const Activity& other);
};

class ThreadActivity {
 public:
  static constexpr std::size_t kMost = 256, kMostThreads = 1u << 12;

  // An event of the host, which `switches` has taken; `vmm_event` is the VMM's event that it is, or
  // kNoName.
  void on(const Event& event, ThreadChanges changes, NameId vmm_event,
          const RecordedSwitches& switches);
  // Its times sum to the interval.
  [[nodiscard]] Activity between(ThreadId thread, Timestamp begin, Timestamp end) const;

 private:
  enum class State : std::uint8_t { kUnknown, kRan, kReady, kSlept };
  struct Step {
    Timestamp at;
    State state = State::kUnknown;  // from then on
    NameId event = kNoName;         // or the VMM's event, and the state stays
  };
  struct Thread {
    std::vector<Step> steps;  // a ring once it is full
    std::uint64_t added = 0;
    State state = State::kUnknown;
  };
  void add(ThreadId thread, Timestamp at, State state, NameId event = kNoName);
  void on(const ThreadChange& change, const RecordedSwitches& switches);
  void on_hole(Timestamp at);

  ThreadTable<Thread> threads_;
};

}  // namespace trapline
