// Halts of vCPU threads: polls that won (an interrupt came while KVM polled), polls that were lost
// (the thread slept), how long a woken thread waited until it ran, and what polling cost.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "merge/analyze/threads.h"
#include "merge/model/event.h"
#include "merge/model/exit_span.h"
#include "merge/model/histogram.h"
#include "merge/model/thread_table.h"

namespace trapline {

// What another value of kvm.halt_poll_ns would have made of the halts that were recorded.
//
//   halt begins          polled for the interval            sleeps            woken      runs
//   ──────┼──────────────────────────┼────────────────────────────────────────┼──────────┼──
//         └──────────────── wake ─────────────────────────────────────────────┘└─ late ──┘
//
// Had KVM polled at least as long as `wake`, the vCPU would have run on then: `late` is saved and
// `wake` is spent. Else the interval is spent for nothing. The interval grows and shrinks as in
// kvm_vcpu_halt() (Linux, virt/kvm/kvm_main.c), as if no other thread wanted the CPU meanwhile.

// One halt.
struct Halt {
  std::uint64_t wake_ns = 0;  // from its begin to what ended it
  std::uint64_t late_ns = 0;  // from that to the vCPU's running on; 0 where polling won
  bool slept = false;
  bool at_once = false;  // KVM did not poll, and it ended before the thread slept
};

// halt_poll_ns_grow, halt_poll_ns_grow_start, halt_poll_ns_shrink: module parameters of kvm.
struct PollParameters {
  std::uint64_t grow = 2, grow_start = 10'000, shrink = 0;
};

class HaltReplay {
 public:
  HaltReplay(std::uint64_t max_ns, std::uint64_t shrink) : max_(max_ns) { how_.shrink = shrink; }
  void add(const Halt& halt);

  [[nodiscard]] std::uint64_t max_ns() const { return max_; }
  [[nodiscard]] std::uint64_t won() const { return won_; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  [[nodiscard]] std::uint64_t polling_ns() const { return polling_; }
  // Covers the halts that slept in the recording too; each other one adds a typical wake-up.
  [[nodiscard]] std::uint64_t late_ns() const { return late_; }
  [[nodiscard]] std::uint64_t would_sleep() const { return would_sleep_; }

 private:
  void adjust(std::uint64_t halted_ns);

  PollParameters how_;
  std::uint64_t max_, interval_ = 0;
  std::uint64_t won_ = 0, lost_ = 0, polling_ = 0, late_ = 0;
  std::uint64_t would_sleep_ = 0;  // polling won in the recording and would not have here
};

// Several values side by side, with both ways to shrink that kernels have had as their default.
class HaltReplays {
 public:
  static constexpr std::array<std::uint64_t, 10> kSettings = {
      0, 10'000, 50'000, 100'000, 200'000, 500'000, 1'000'000, 2'000'000, 5'000'000, 10'000'000};

  HaltReplays();
  void add(const Halt& halt);
  // KVM changed a vCPU's interval: how it shrinks shows.
  void on_change(std::uint64_t before, std::uint64_t now);

  struct Row {
    std::uint64_t halt_poll_ns = 0, won = 0, lost = 0, polling_ns = 0;
    std::uint64_t late_ns = 0;  // from what ended the halts to the vCPU's running on
  };
  using Rows = std::array<Row, kSettings.size()>;
  [[nodiscard]] Rows rows(bool halves) const;
  // Whether a shrinking interval was seen to be halved (true) or set to 0; nothing seen: false.
  [[nodiscard]] bool halves() const { return halved_ != 0; }
  [[nodiscard]] bool saw_shrinking() const { return halved_ + zeroed_ != 0; }
  [[nodiscard]] std::uint64_t halts() const { return halts_; }
  // As they were recorded.
  [[nodiscard]] std::uint64_t late_ns() const { return late_.total(); }

 private:
  static constexpr std::uint64_t kHalved = 2;
  std::vector<HaltReplay> replays_;  // those that set the interval to 0, then those that halve it
  Histogram late_;
  std::uint64_t halts_ = 0, halved_ = 0, zeroed_ = 0;
};

class HaltTracker {
 public:
  struct Thread {
    bool is_vcpu = false;  // it left its guest, or a halt of it ended
    Histogram polls_won, slept, wake_to_run;
    std::uint64_t invalid = 0;     // halts whose time KVM itself calls invalid
    std::uint64_t halt_exits = 0;  // ended exits that are halts
    std::uint64_t polling_ns = 0;  // spent on polls
    // Of halts before KVM told the vCPU's interval: the most that polling can have cost, and how
    // many they are.
    std::uint64_t polling_at_most_ns = 0, halts_bounded = 0;
    std::uint64_t halts_unknown = 0;  // of which nothing tells how long KVM polled
    std::uint64_t wakes_unknown = 0;  // sleeps that no replay has: what ended them was not recorded
    // The halts under other values of halt_poll_ns.
    HaltReplays replays;
    // Of the open halt.
    std::optional<Timestamp> last_woken, first_slept;
    std::optional<std::uint64_t> interval, interval_before;  // KVM's, of the vCPU
  };
  // `ended` is the exit that the event ended, or nullptr.
  void on(const Event& event, ThreadChanges changes, const ExitSpan* ended);
  [[nodiscard]] const auto& threads() const { return threads_.entries(); }
  // Returns nullptr for a thread without a halt or an exit.
  [[nodiscard]] const Thread* find(ThreadId thread) const { return threads_.find(thread); }

 private:
  static constexpr std::size_t kMostThreads = 1u << 16;
  void on_wakeup(Thread& thread, const Event& event, const KvmVcpuWakeup& wakeup);
  void on(const ThreadChange& change);
  static void add_poll(Thread& thread, std::optional<std::uint64_t> most_ns, std::uint64_t ns);
  void on_interval(Thread& thread, const KvmHaltPoll& poll);
  static void forget(Thread& thread);

  LossTable<Thread> threads_;
};

}  // namespace trapline
