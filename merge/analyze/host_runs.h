// How long each thread of the host ran, by the scheduler: from the sched_switch that brings it to
// its CPU to the one that takes it away.
//
// Nothing is known before the recording's first sched_switch, nor more than kMostAfter after its
// last one. Then, before a CPU's first sched_switch and after a loss, the thread of the CPU's
// events runs there since the first of them. Where a thread's events come on a CPU that another one
// had, the time since the last event of the other is nobody's.
#pragma once

#include <array>
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
  static constexpr std::uint64_t kMostAfter = 10'000'000;

  struct Thread {
    std::uint64_t ran_ns = 0, turns = 0;  // times that it was switched in
    // In its runs: in interrupts and softirqs of the CPU, as far as their ends were recorded.
    std::uint64_t interrupts_ns = 0;
    bool several = false;  // threads, one after the other: an id that is used again
  };
  using Entry = ThreadTable<Thread>::Entry;

  // Every event of the host's kernel, in order, with what Threads made of it.
  void on(const Event& event, ThreadChanges changes);
  // The figures begin there.
  void begin_at(Timestamp begin);

  // Up to the recording's end, as all of them.
  [[nodiscard]] std::vector<Entry> threads(Timestamp end) const;
  // Time of CPUs in which nothing tells which thread ran: losses, gaps, more threads than are kept.
  [[nodiscard]] std::uint64_t unknown_ns() const { return unknown_ns_; }
  [[nodiscard]] bool knows_interrupts() const { return knows_[kHard] || knows_[kSoft]; }
  // Whether the CPU is in an interrupt.
  [[nodiscard]] bool is_in_interrupt(std::uint32_t cpu) const {
    return cpu < cpus_.size() && (cpus_[cpu].began[kHard] || cpus_[cpu].began[kSoft]);
  }

 private:
  enum Kind : std::size_t { kHard, kSoft, kKinds };
  struct Cpu {
    std::optional<ThreadId> thread;                        // nothing: not known
    Timestamp since, last;                                 // its run; its last event
    std::array<std::optional<Timestamp>, kKinds> began{};  // of the interrupts that it is in
  };
  void run(Cpu& cpu, Timestamp end, bool known);
  void on_interrupt(Cpu& cpu, const Event& event, const HostEvent& host);

  std::vector<Cpu> cpus_;
  ThreadTable<Thread> threads_;
  std::uint64_t unknown_ns_ = 0;
  std::optional<Timestamp> last_switch_;
  std::array<bool, kKinds> knows_{};  // an end of the kind was recorded
};

}  // namespace trapline
