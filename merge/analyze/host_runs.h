// Measures how long each thread of the host ran: from the sched_switch to the thread until the
// sched_switch away from it.
//
// Nothing is known before the recording's first sched_switch, nor later than kMostAfter after its
// last one. In between, before a CPU's first sched_switch and after a loss, a thread counts as
// running from its first event on the CPU. If a thread's events come on a CPU that another thread
// had, the time since the other's last event belongs to no thread.
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
    std::uint64_t ran_ns = 0, turns = 0;  // `turns`: how often it was switched in
    // Part of ran_ns: interrupts and softirqs of the CPU, as far as their ends were recorded.
    std::uint64_t interrupts_ns = 0;
    bool several = false;  // several threads had this id one after the other
  };
  using Entry = ThreadTable<Thread>::Entry;

  // Takes every event of the host's kernel in order, with the changes that Threads found in it.
  void on(const Event& event, ThreadChanges changes);
  // The figures begin at this time.
  void begin_at(Timestamp begin);

  // Returns all threads; those that still run count up to the recording's end.
  [[nodiscard]] std::vector<Entry> threads(Timestamp end) const;
  // Returns the time of CPUs in which the running thread is not known: losses, gaps, or more
  // threads than are kept.
  [[nodiscard]] std::uint64_t unknown_ns() const { return unknown_ns_; }
  [[nodiscard]] bool knows_interrupts() const { return knows_[kHard] || knows_[kSoft]; }
  // Returns whether the CPU is in an interrupt.
  [[nodiscard]] bool is_in_interrupt(std::uint32_t cpu) const {
    return cpu < cpus_.size() && (cpus_[cpu].began[kHard] || cpus_[cpu].began[kSoft]);
  }

 private:
  enum Kind : std::size_t { kHard, kSoft, kKinds };
  struct Cpu {
    std::optional<ThreadId> thread;  // nullopt: not known
    Timestamp since, last;           // beginning of its run; its last event
    // Beginnings of the interrupts that it is in.
    std::array<std::optional<Timestamp>, kKinds> began{};
  };
  void run(Cpu& cpu, Timestamp end, bool known);
  void on_interrupt(Cpu& cpu, const Event& event, const HostEvent& host);

  std::vector<Cpu> cpus_;
  ThreadTable<Thread> threads_;
  std::uint64_t unknown_ns_ = 0;
  std::optional<Timestamp> last_switch_;
  std::array<bool, kKinds> knows_{};  // an end of this kind was recorded
};

}  // namespace trapline
