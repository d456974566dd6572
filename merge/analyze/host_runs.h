// Measures how long each thread of the host ran: from the sched_switch to the thread until the
// sched_switch away from it.
//
// Runs are known from the recording's first sched_switch until kMostAfter after its last one, and
// where kvm_exit and kvm_entry show that a thread runs; in a window, until the window's end. Before
// a CPU's own first sched_switch, and after a loss, a kvm_exit or kvm_entry shows that its thread
// runs on the event's CPU, from the first such event on. If such an event comes on a CPU that
// another thread had, the time since that thread's last event is unknown; so it is if the thread is
// switched in on another CPU.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "merge/analyze/threads.h"
#include "merge/model/event.h"
#include "merge/model/thread_table.h"

namespace trapline {

class HostRuns {
 public:
  static constexpr std::size_t kMostThreads = 1u << 17;
  static constexpr std::uint32_t kMostCpus = 1u << 12;
  static constexpr std::uint64_t kMostAfter = 10'000'000;

  struct Thread {
    std::uint64_t ran_ns = 0, turns = 0;  // `turns`: how often the thread was switched in
    // Part of ran_ns: interrupts and softirqs of the CPU, if knows_interrupts().
    std::uint64_t interrupts_ns = 0;
    std::uint64_t line_ns = 0;  // length of the runs in which the thread set an interrupt line
    // Interrupts of an idle CPU that woke this thread before any other: their number and time. The
    // time is not part of ran_ns.
    std::uint64_t idle_wakes = 0, idle_ns = 0;
    std::uint32_t cpu = 0;  // the CPU on which it was switched in last
  };
  // How often a thread set each interrupt line (GSI). The key is 2 * line, plus 1 for a raise.
  using Lines = std::map<std::uint64_t, std::uint64_t>;
  static constexpr std::size_t kMostLines = 64;
  using Entry = ThreadTable<Thread>::Entry;
  // The work items that a kernel worker ran for the thread that queued them: their number, and how
  // long the worker ran in them. An item counts if it was queued in the thread's own context, not
  // in an interrupt.
  struct Work {
    std::uint64_t ran_ns = 0, items = 0;
    Timestamp last = {};  // the end of the last item
  };
  using Works =
      std::map<std::pair<ThreadId, ThreadId>, Work>;  // by the worker and the thread that queued
  static constexpr std::size_t kMostWorks = 4096;
  // One call of an interrupt handler: irq_handler_entry to irq_handler_exit.
  struct Handler {
    std::uint64_t ns = 0;
    Timestamp begin{};
    std::int32_t line = 0;
  };
  // One run of a thread on a CPU, without the part before begin_at().
  struct Run {
    ThreadId thread{};
    Timestamp begin, end;
  };

  // Takes every event of the host's kernel, in order, with the changes that Threads found in it.
  void on(const Event& event, ThreadChanges changes) {
    if (is_any_of<KvmExit, KvmEntry>(event.payload)) {
      if (!has_vectors_) [[unlikely]]
        if (const auto* exit = std::get_if<KvmExit>(&event.payload))
          has_vectors_ = exit->isa != kIsaArm64 && exit->isa != kIsaRiscv;
      if (event.cpu < cpus_.size() && cpus_[event.cpu].thread == event.thread) [[likely]]
        cpus_[event.cpu].last = event.at;
      else if (last_switch_)
        take(event, changes);
    } else if (is_any_of<HostEvent, KvmIrq>(event.payload) ||
               (!changes.empty() && (changes[0].leaves() || changes[0].loses()))) {
      take(event, changes);
    }
  }
  // Notes that the event woke the sleeping `thread`. Call this after on().
  void on_woken(const Event& event, ThreadId thread) {
    if (!is_in_interrupt(event.cpu) || cpus_[event.cpu].thread != kIdle) return;
    if (auto& woken = cpus_[event.cpu].woken; !woken) woken = thread;
  }
  // Ends the thread, whose last switch was not recorded.
  void end(ThreadId thread, Timestamp at);
  // Starts the figures anew at this time.
  void begin_at(Timestamp begin);
  // Says that the recording goes on after the last event taken: open runs last until the window's
  // end.
  void set_goes_on() { goes_on_ = true; }
  // Returns whether switches are recorded from `begin` to `end`, apart from losses.
  [[nodiscard]] bool covers(Timestamp begin, Timestamp end) const;

  // Returns how many runs have ended since begin_at(), and the last one. An event ends at most one.
  [[nodiscard]] std::uint64_t ended() const { return ended_; }
  [[nodiscard]] const Run& last_ended() const { return last_ended_; }
  // Returns the open runs, up to `end` or as far as they are known.
  [[nodiscard]] std::vector<Run> open(Timestamp end) const;
  // Returns all threads, with their open runs as in open().
  [[nodiscard]] std::vector<Entry> threads(Timestamp end) const;
  // Returns the time of CPUs in which the running thread is not known: losses, gaps, or more
  // threads than are kept.
  [[nodiscard]] std::uint64_t unknown_ns() const { return unknown_ns_; }
  [[nodiscard]] Lines lines(ThreadId thread) const {
    const Lines* lines = lines_.find(thread);
    return lines == nullptr ? Lines() : *lines;
  }
  // Returns all works; an open item counts with what its worker ran until `end`.
  [[nodiscard]] Works works(Timestamp end) const;
  // Returns whether work items' ends, and who queued them, were recorded.
  [[nodiscard]] bool knows_works() const { return knows_works_ && knows_queues_; }
  // Returns whether all kinds of interrupts were recorded.
  [[nodiscard]] bool knows_interrupts() const {
    return knows_[kHard] && knows_[kSoft] && (knows_[kVector] || has_vectors_ == false);
  }
  // Returns the longest call of an interrupt handler; 0 ns if none was recorded.
  [[nodiscard]] const Handler& longest_handler() const { return longest_; }
  // Returns whether the CPU is in an interrupt.
  [[nodiscard]] bool is_in_interrupt(std::uint32_t cpu) const {
    return cpu < cpus_.size() &&
           std::ranges::any_of(cpus_[cpu].began, [](auto& began) { return began.has_value(); });
  }

 private:
  static constexpr ThreadId kIdle{0};
  enum Kind : std::size_t { kHard, kVector, kSoft, kKinds };
  struct alignas(128) Cpu {          // a power of two, by which an index is found without a product
    std::optional<ThreadId> thread;  // nullopt: not known
    Timestamp since, last;           // when the thread's run began; its last event
    bool sets_line = false;          // the thread set an interrupt line in this run
    std::array<std::optional<Timestamp>, kKinds> began{};  // when the open interrupts began
    std::optional<ThreadId> woken;  // the first thread that an interrupt woke, if the CPU is idle
    std::optional<Timestamp> handler;  // when the open handler began
  };
  // A work item that a worker is in.
  struct Item {
    std::uint64_t address = 0;  // 0: none
    ThreadId by{};
    std::uint64_t ran_ns = 0;  // the worker's ran_ns when the item began
  };
  void take(const Event& event, ThreadChanges changes);
  void run(Cpu& cpu, Timestamp end, bool known);
  void switch_in(Cpu& cpu, const Event& event, ThreadId next);
  void on_line(Cpu& cpu, const Event& event, const KvmIrq& irq);
  void on_interrupt(Cpu& cpu, const Event& event, HostStep step);
  void on_handler(Cpu& cpu, const Event& event, const HostEvent& host);
  void on_work(const Cpu& cpu, const Event& event, const HostEvent& work);

  std::vector<Cpu> cpus_;
  ThreadTable<Thread> threads_;
  ThreadTable<Lines> lines_;
  std::map<std::uint64_t, ThreadId> queued_;  // by a work item's address: who queued it
  ThreadTable<Item> items_;
  Works works_;
  std::uint64_t unknown_ns_ = 0, ended_ = 0;
  Run last_ended_;
  Handler longest_;
  std::optional<Timestamp> first_switch_, last_switch_;
  bool goes_on_ = false;
  std::array<bool, kKinds> knows_{};  // an end of this kind of interrupt was recorded
  bool knows_works_ = false, knows_queues_ = false;  // recorded: an item's end; a thread's queueing
  std::optional<bool> has_vectors_;  // x86: some interrupts have no line; nullopt: not known
};

}  // namespace trapline
