// Tells who ran on each CPU of the host, from sched_switch, and the interrupts that took its time,
// where ends of such are recorded. The latest kMost switches of a CPU are kept: a wait that is
// longer than those is divided as far as they reach back. All waits together are divided into at
// most kPieces for each switch: many that are long at once are divided as far back as that goes.
//
//   first switch      switch        loss          event after it      switch
//   ─── not known ────┼── thread ───┼─ lost ──────┼── its `prev` ─────┼── thread …
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/analyze/threads.h"

namespace trapline {

class CpuRunners {
 public:
  static constexpr std::size_t kMost = 1u << 14;  // switches of a CPU, a power of two
  static constexpr std::uint64_t kPieces = 64, kFirstPieces = 1u << 16;
  static constexpr std::uint32_t kMostCpus = 1u << 12;
  // No sleep state of a CPU takes as long to leave.
  static constexpr std::uint64_t kLongestWakeUp = 5'000'000;

  // A thread that a CPU switches to.
  void on_run(const ThreadChange& change, const RecordedSwitches& switches);
  // A hard interrupt's handler, or a softirq, begins or ends.
  void on_interrupt(Timestamp at, std::uint32_t cpu, CulpritKind kind, bool begins,
                    std::uint32_t number);
  void on_lost(std::uint32_t cpu, Timestamp from, Timestamp to);
  // A thread was put into that CPU's queue. As long as no event of the CPU comes, it may not be
  // recorded: threads may run there unseen, and of an idle CPU nothing is claimed.
  void on_queued(std::uint32_t cpu);
  [[nodiscard]] bool is_unseen(std::uint32_t cpu) const;

  // A thread's wait on that CPU. A CPU that switches to its idle thread while the thread is in its
  // queue does not run it because it may not; one that was idle already has yet to take it up.
  struct Wait {
    Timestamp begin, end;
    Timestamp queued;    // from then on it surely was in the queue
    bool woken = false;  // it waits since a wake-up: else it was switched out runnable, or moved
  };
  // Adds it in pieces to `shares`, without a gap.
  void divide(std::uint32_t cpu, const Wait& wait, std::vector<WaitShare>& shares);

 private:
  struct Run {
    Timestamp begin = {};
    ThreadId thread{};
    Missing missing = Missing::kNone;
    CulpritKind kind = CulpritKind::kThread;  // kInterrupt and kSoftirq have a number
    std::uint32_t number = 0;
    Timestamp chosen =
        {};  // when the CPU switched to the thread; begin may be the end of an interrupt
  };
  struct Cpu {
    std::vector<Run> runs;                      // a ring once it is full
    std::uint64_t added = 0;                    // runs that were ever added
    Run thread{{}, {}, Missing::kSwitches};     // the last one that is no interrupt
    std::optional<std::uint32_t> irq, softirq;  // that are open
    bool seen = false;                          // an event of it came
    [[nodiscard]] const Run& at(std::uint64_t number) const { return runs[number % kMost]; }
  };
  [[nodiscard]] Cpu* cpu_of(std::uint32_t cpu);
  [[nodiscard]] Culprit culprit_of(const Run& run, const Wait& wait) const;
  void add(Cpu& cpu, const Run& run);
  static void doubt_last(Cpu& cpu);

  std::vector<Cpu> cpus_;
  bool irq_ends_ = false, softirq_ends_ = false;  // an end came
  std::vector<std::uint32_t> unseen_;    // CPUs with threads in their queues and without an event
  std::uint64_t pieces_ = kFirstPieces;  // that waits may still be divided into
};

}  // namespace trapline
