// Tells which thread ran on each CPU of the host, from sched_switch, and which interrupts took the
// CPU's time, if their ends are recorded, and divides threads' waits for a CPU by them. Only the
// latest kMost switches of a CPU are kept, so a longer wait is divided only as far as they reach
// back. The pieces of all waits together are limited, too: each run adds kPieces to the limit. If
// many long waits reach it, only their last parts are divided.
//
//   first switch      switch        loss          event after it      switch
//   ─── not known ────┼── thread ───┼─ lost ──────┼── its `prev` ─────┼── thread …
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/analyze/threads.h"

namespace trapline {

class CpuRunners {
 public:
  static constexpr std::size_t kMost = 1u << 14;  // switches per CPU
  static constexpr std::uint64_t kPieces = 64, kFirstPieces = 1u << 16;
  static constexpr std::uint32_t kMostCpus = 1u << 12;
  // The longest time that a CPU needs to leave its sleep state, in ns.
  static constexpr std::uint64_t kLongestWakeUp = 5'000'000;

  // Takes a switch of a CPU to a thread.
  void on_run(const ThreadChange& change, const RecordedSwitches& switches);
  // Takes the beginning or end of a hard interrupt's handler or of a softirq.
  void on_interrupt(const Event& event, const HostEvent& host);
  void on_lost(const ThreadChange& loss);
  // Notes that a thread was put into the CPU's queue. A CPU without an event may not be recorded,
  // so that the thread can run there unseen. As long as there is such a CPU, an idle CPU proves
  // nothing.
  void on_queued(std::uint32_t cpu);
  void set_knows_moves(bool knows) { knows_moves_ = knows; }

  // A thread's wait for a CPU. If the CPU switches to its idle thread while the thread is in the
  // queue, the thread was not allowed to run. If the CPU was idle already, it has not picked the
  // thread up yet.
  struct Wait {
    Timestamp begin, end;
    Timestamp queued;  // from this time on the thread certainly was in the queue
    // The wait began with a wake-up; otherwise the thread was switched out runnable, or moved.
    bool woken = false;
  };
  // Appends the wait to `shares`, in pieces without gaps.
  void divide(std::uint32_t cpu, const Wait& wait, std::vector<WaitShare>& shares);

 private:
  struct Run {
    Timestamp begin = {};
    ThreadId thread{};
    Missing missing = Missing::kNone;
    CulpritKind kind = CulpritKind::kThread;  // kInterrupt and kSoftirq have a number
    std::uint32_t number = 0;
    Timestamp chosen =
        {};  // when the CPU switched to the thread; `begin` may be the end of an interrupt
  };
  struct Cpu {
    std::deque<Run> runs;                       // the latest
    bool dropped = false;                       // there were earlier runs
    Run thread{{}, {}, Missing::kSwitches};     // the last run that is not an interrupt
    std::optional<std::uint32_t> irq, softirq;  // the interrupts that the CPU is in
    bool seen = false;                          // the recording has an event of the CPU
  };
  [[nodiscard]] Cpu* cpu_of(std::uint32_t cpu);
  [[nodiscard]] ProvenCulprit culprit_of(const Run& run, std::uint32_t cpu, const Wait& wait) const;
  void add(Cpu& cpu, const Run& run);
  static void doubt_last(Cpu& cpu);

  std::vector<Cpu> cpus_;
  bool irq_ends_ = false, softirq_ends_ = false;  // whether an end was recorded
  bool knows_moves_ = true;                       // ExitModel::moves
  std::vector<std::uint32_t> unseen_;  // CPUs that have threads in their queues and no event so far
  std::uint64_t pieces_ = kFirstPieces;  // number of pieces that waits may still be divided into
};

}  // namespace trapline
