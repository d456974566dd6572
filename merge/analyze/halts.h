// Halts of vCPU threads: successful polls (an interrupt came while KVM polled), failed polls (the
// thread slept), how long a woken thread waited until it ran, and the cost of polling.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "merge/analyze/threads.h"
#include "merge/model/event.h"
#include "merge/model/exit_span.h"
#include "merge/model/histogram.h"
#include "merge/model/thread_table.h"

namespace trapline {

// One halt.
struct Halt {
  std::uint64_t wake_ns = 0;  // from the halt's beginning to the event that ended the halt
  std::uint64_t late_ns = 0;  // from the event that ended the halt until the vCPU ran; 0: poll won
  bool slept = false;
  bool at_once = false;  // KVM did not poll, and the halt ended before the thread slept
  // From the halt's beginning until another thread ran on the vCPU's CPU: KVM polls no longer.
  std::uint64_t free_ns = std::numeric_limits<std::uint64_t>::max();
};

// Computes the effect that another value of kvm.halt_poll_ns would have had on the recorded halts.
//
//   halt begins          polled for the interval            sleeps            woken      runs
//   ──────┼──────────────────────────┼────────────────────────────────────────┼──────────┼──
//         └──────────────── wake ─────────────────────────────────────────────┘└─ late ──┘
//
// If KVM had polled at least as long as `wake`, the vCPU would have run on at that time: `late` is
// saved and `wake` is spent. Otherwise the interval is spent for nothing. The interval grows and
// shrinks as in kvm_vcpu_halt() (Linux, virt/kvm/kvm_main.c). A poll ends when another thread wants
// the CPU; the recording shows when one ran.
class HaltReplay {
 public:
  // The module parameters of kvm halt_poll_ns_grow and halt_poll_ns_grow_start.
  static constexpr std::uint64_t kGrow = 2, kGrowStart = 10'000;

  struct Row {
    std::uint64_t halt_poll_ns = 0, won = 0, lost = 0, polling_ns = 0;
    std::uint64_t late_ns = 0;  // sum over halts, from what ended a halt until the vCPU ran
  };
  // `shrink`: the module parameter halt_poll_ns_shrink.
  HaltReplay(std::uint64_t max_ns, std::uint64_t shrink) : shrink_(shrink) {
    row_.halt_poll_ns = max_ns;
  }
  void add(const Halt& halt);
  // Returns the sums. The row's late_ns is that of halts that slept in the recording as well;
  // HaltReplays::rows() adds a typical wait for each of would_sleep().
  [[nodiscard]] const Row& row() const { return row_; }
  [[nodiscard]] std::uint64_t would_sleep() const { return would_sleep_; }

 private:
  void adjust(std::uint64_t halted_ns);

  std::uint64_t shrink_, interval_ = 0;
  Row row_;
  // Halts whose polling succeeded in the recording and would fail with this halt_poll_ns.
  std::uint64_t would_sleep_ = 0;
};

// Replays several values of halt_poll_ns at once, each with both ways of shrinking that have been
// the default of kernels.
class HaltReplays {
 public:
  static constexpr std::array<std::uint64_t, 10> kSettings = {
      0, 10'000, 50'000, 100'000, 200'000, 500'000, 1'000'000, 2'000'000, 5'000'000, 10'000'000};

  HaltReplays();
  void add(const Halt& halt);
  // Takes a change of a vCPU's interval by KVM, which shows how the interval shrinks.
  void on_change(std::uint64_t before, std::uint64_t now);

  using Row = HaltReplay::Row;
  using Rows = std::array<Row, kSettings.size()>;
  [[nodiscard]] Rows rows(bool halves) const;
  // Returns true if an interval was halved when it shrank; false if intervals were set to 0, or if
  // none shrank.
  [[nodiscard]] bool halves() const { return halved_ != 0; }
  [[nodiscard]] bool saw_shrinking() const { return halved_ + zeroed_ != 0; }
  [[nodiscard]] std::uint64_t halts() const { return halts_; }
  // Returns late_ns as it was in the recording, summed over the halts that slept.
  [[nodiscard]] std::uint64_t late_ns() const { return late_.total(); }

 private:
  static constexpr std::uint64_t kHalved = 2;
  // First the replays that shrink the interval to 0, then those that halve it.
  std::vector<HaltReplay> replays_;
  Histogram late_;
  std::uint64_t halts_ = 0, halved_ = 0, zeroed_ = 0;
};

class HaltTracker {
 public:
  struct Thread {
    bool is_vcpu = false;  // the thread left its guest, or ended a halt
    Histogram polls_won, slept, wake_to_run;
    std::uint64_t invalid = 0;     // halts whose time KVM itself marks as invalid
    std::uint64_t halt_exits = 0;  // ended exits that are halts
    std::uint64_t polling_ns = 0;  // time spent on polls
    // Halts before KVM reported the vCPU's interval: the greatest possible cost of their polls, and
    // their number.
    std::uint64_t polling_at_most_ns = 0, halts_bounded = 0;
    std::uint64_t halts_unknown = 0;  // halts for which nothing shows how long KVM polled
    // Sleeps that no replay includes: what ended them was not recorded.
    std::uint64_t wakes_unknown = 0;
    // The thread's halts, replayed with other values of halt_poll_ns.
    HaltReplays replays;
    // State of the open halt:
    std::optional<Timestamp> last_woken, first_slept;
    std::optional<Timestamp> taken;  // when another thread first ran on the CPU of the sleep
    std::optional<std::uint32_t> asleep_on;  // the CPU of the sleep, as long as it lasts
    std::optional<std::uint64_t> interval, interval_before;  // KVM's interval of the vCPU
  };
  // Takes a KvmHaltPoll, KvmVcpuWakeup or KvmExit, or an event that changed a thread or ended the
  // exit `ended` (else nullptr).
  void on(const Event& event, ThreadChanges changes, const ExitSpan* ended);
  [[nodiscard]] const auto& threads() const { return threads_.entries(); }
  // Returns nullptr for a thread without a halt or an exit.
  [[nodiscard]] const Thread* find(ThreadId thread) const { return threads_.find(thread); }

 private:
  static constexpr std::size_t kMostThreads = 1u << 16;
  void on_wakeup(Thread& thread, const Event& event, const KvmVcpuWakeup& wakeup);
  void on(const ThreadChange& change);
  void note_runner(std::uint32_t cpu, ThreadId runner, Timestamp at);
  static void add_poll(Thread& thread, std::optional<std::uint64_t> most_ns, std::uint64_t ns);
  void on_interval(Thread& thread, const KvmHaltPoll& poll);
  static void forget(Thread& thread);

  static constexpr std::uint32_t kMostCpus = 1u << 12;
  LossTable<Thread> threads_;
  std::vector<ThreadId> sleepers_;  // by CPU: the thread that sleeps there while nothing else runs
};

}  // namespace trapline
