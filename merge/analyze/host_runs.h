// How long each thread of the host ran, by the scheduler: from the sched_switch that brings it to
// its CPU to the one that takes it away.
//
// Before a CPU's first sched_switch, and after a loss, the thread of the CPU's events runs there
// since the first of them; where a thread's events come on a CPU that another one had, the time
// since the last event of the other is nobody's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "merge/analyze/threads.h"
#include "merge/model/event.h"
#include "merge/model/thread_table.h"

namespace trapline {

class HostRuns {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16;
  static constexpr std::uint32_t kMostCpus = 1u << 12;

  struct Thread {
    std::uint64_t ran_ns = 0, turns = 0;  // times that it was switched in
    // In its runs: in interrupts and softirqs of the CPU, as far as their ends were recorded.
    std::uint64_t interrupts_ns = 0;
  };

  // Every event of the host's kernel, in order, with what Threads made of it.
  void on(const Event& event, ThreadChanges changes);
  // Up to the recording's end, as all of them.
  [[nodiscard]] std::vector<ThreadTable<Thread>::Entry> threads(Timestamp end) const;
  // Time of CPUs between their first and last events in which nothing tells which thread ran.
  [[nodiscard]] std::uint64_t unknown_ns() const { return unknown_ns_; }
  [[nodiscard]] bool knows_interrupts() const { return knows_interrupts_; }

 private:
  struct Cpu {
    std::optional<ThreadId> thread;  // nothing: not known
    Timestamp since, last;           // its run; its last event
    std::uint32_t depth = 0;         // of interrupts
    Timestamp interrupted;
  };
  void run(Cpu& cpu, Timestamp end, bool known);
  void on_interrupt(Cpu& cpu, const Event& event, const HostEvent& host);

  std::vector<Cpu> cpus_;
  ThreadTable<Thread> threads_;
  std::uint64_t unknown_ns_ = 0;
  bool knows_interrupts_ = false;
};

}  // namespace trapline
