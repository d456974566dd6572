// When a recording's vCPU threads left their guest and went back in, kept for rules that need to
// know more before they can look. Pure.
//
// Bounded: from kMost entries on whole stretches are left out, evenly. What is missing is a loss to
// whoever replays it.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "merge/clock/guest_run_intervals.h"
#include "merge/model/event.h"

namespace trapline {

class RunLog {
 public:
  explicit RunLog(std::size_t most = kMost) : most_(most) {}

  void on_exit(ThreadId thread, std::uint64_t at) { add(threads_[thread], {at, Step::kExit}); }
  void on_entry(ThreadId thread, std::uint64_t at) { add(threads_[thread], {at, Step::kEntry}); }
  void on_loss() {
    for (auto& [thread, log] : threads_) add(log, {0, Step::kLoss});
  }
  void on_event(const Event& event);

  // A thread's steps, in their order.
  void replay(ThreadId thread, GuestRunIntervals& into) const;

  static constexpr std::size_t kMost = 2u << 20;  // 16 bytes each

 private:
  enum class Step : std::uint8_t { kExit, kEntry, kLoss };
  struct Entry {
    std::uint64_t at;
    Step step;
  };
  static constexpr std::size_t kStretch = 4096;
  struct Log {
    std::uint64_t seen = 0;
    std::map<std::uint64_t, std::vector<Entry>> stretches;  // by number
  };
  void add(Log& log, Entry entry);
  void thin_out();

  std::map<ThreadId, Log> threads_;
  std::uint64_t every_ = 1;  // of so many stretches one is kept
  std::size_t kept_ = 0, most_;
};

}  // namespace trapline
