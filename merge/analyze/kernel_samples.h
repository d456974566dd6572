// Puts perf's samples of vCPU threads into the exits that they were taken in.
//
//   kvm_exit      kernel      user      kernel      kvm_entry
//      ├─────────·────·────┼───·────┼──────·──────────┤    ·
//                1    1      elsewhere     1               outside
//
// Only those in an exit's kernel part tell of it. All others are counted, by where they were taken.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "merge/analyze/kernel_frames.h"
#include "merge/model/event.h"
#include "merge/model/exit_span.h"
#include "merge/model/names.h"
#include "merge/model/thread_table.h"

namespace trapline {

// Samples, the sum of their periods, and of those squared: a sample of a counter whose period is
// adapted stands for more, or less, than another.
struct SampleSum {
  std::uint64_t samples = 0;
  double weight = 0, squares = 0;
  SampleSum& operator+=(const SampleSum& more) {
    samples += more.samples;
    weight += more.weight;
    squares += more.squares;
    return *this;
  }
};
struct SampleShare {
  KernelStackId stack = 0;  // the innermost is what was executed
  SampleSum sum;
};
// By where they were taken; they sum to all that came.
struct SampleCounters {
  std::uint64_t kernel = 0;     // in the kernel's part of exits that were handed out
  std::uint64_t elsewhere = 0;  // in such an exit's other parts
  std::uint64_t outside = 0;    // of a vCPU's thread, in no exit that was handed out
  std::uint64_t guest = 0;      // of a guest that a vCPU's thread ran
  std::uint64_t others = 0;     // of other threads
  std::uint64_t no_room = 0;    // of exits with too many
  [[nodiscard]] std::uint64_t all() const {
    return kernel + elsewhere + outside + guest + others + no_room;
  }
};

class KernelSamples {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16;
  static constexpr std::size_t kMostWaiting = 1u << 16;    // of a vCPU, for their exit's end
  static constexpr std::size_t kMostOfOthers = 1u << 10;   // of a thread that had no exit yet
  static constexpr std::size_t kMostFrames = 128;          // of a stack, from its innermost
  static constexpr std::size_t kMostAddresses = 1u << 17;  // further ones are "[other]"
  using SymbolOf = std::function<std::string(std::uint64_t)>;

  // `names` is borrowed; `symbol`: the kernel's function around an address, empty: none.
  KernelSamples(Names& names, SymbolOf symbol) : names_(names), symbol_(std::move(symbol)) {}

  // `is_vcpu`: the event's thread was seen to enter or leave a guest, and its exits will come.
  void on(const Event& event, const KernelSample& sample, bool is_vcpu);
  // One before the window: it tells that the thread was sampled from then on.
  void on_before(ThreadId thread, Timestamp at);
  // Takes the shares of an exit that ended. It needs the exit's intervals.
  void on_exit(const ExitSpan& exit);
  // Of the exit that was taken last, one for each stack.
  [[nodiscard]] std::span<const SampleShare> shares() const { return shares_; }
  [[nodiscard]] const KernelFrame& frame(KernelStackId stack) const { return frames_[stack]; }
  [[nodiscard]] SampleCounters counters() const;
  // How many samples of the thread came up to now, wherever they were taken.
  [[nodiscard]] std::uint64_t count(ThreadId thread) const;
  // Whether the thread of the exit that was taken last was sampled from before its begin on, and
  // all of its samples found room.
  [[nodiscard]] bool is_covered() const { return covered_; }
  // Whether a timer's interrupt took them, which sees no code that has interrupts off.
  [[nodiscard]] bool by_timer() const { return by_timer_; }

 private:
  struct Taken {
    Timestamp at;
    KernelStackId stack;
    std::uint64_t period;
  };
  struct Thread {
    bool is_vcpu = false;
    std::vector<Taken> waiting;  // for their exit's end
    bool no_room = false;        // for one of this exit
    std::uint64_t outside = 0, guest = 0, count = 0;
    Timestamp first;
  };
  [[nodiscard]] KernelStackId stack_of(const KernelSample& sample);
  [[nodiscard]] NameId name_of(std::uint64_t address);
  void take(const Taken& taken);

  Names& names_;
  SymbolOf symbol_;
  ThreadTable<Thread> threads_;
  std::vector<SampleShare> shares_;
  std::map<KernelStackId, std::size_t> share_of_;
  KernelFrames frames_;  // without room a callee counts as its caller
  std::map<std::uint64_t, NameId> by_address_;
  std::uint64_t kernel_ = 0, elsewhere_ = 0, dropped_ = 0, no_room_ = 0;
  bool covered_ = false;  // the exit that was taken last
  bool by_timer_ = false;
};

}  // namespace trapline
