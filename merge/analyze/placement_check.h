// Checks whether the alignment of a log's clock can be true: while a vCPU runs its guest, its
// thread causes no event in user space. Pure; processes a stream with bounded state for each
// thread.
//
//   kernel      entry ──── guest ──── exit ──── QEMU ──── entry
//   log, placed with its error:  [──?──]                        impossible: the alignment is wrong
//                            [───────?──────]                   possible, near its exit
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "merge/analyze/exit_tracker.h"
#include "merge/model/event.h"
#include "merge/model/thread_table.h"

namespace trapline {

// An event of a program that its clock's alignment places inside a run of the guest, even if the
// alignment is off by its error bound.
struct Misplaced {
  std::uint16_t source = 0;
  ThreadId thread{};
  Timestamp at, entry, exit;
};

class PlacementCheck {
 public:
  // `errors` by source: the error bound of its times, in the timeline's unit. Nullopt, or a source
  // beyond the list: not checked.
  explicit PlacementCheck(std::vector<std::optional<std::uint64_t>> errors)
      : errors_(std::move(errors)) {}
  // Returns whether any source is checked.
  [[nodiscard]] bool checks() const { return !errors_.empty(); }

  // Takes events of the host in order of time, after `exits`.
  void on(const Event& event, const ExitTracker& exits);

  // Returns the number of checked events on vCPUs' threads.
  [[nodiscard]] std::uint64_t placed() const { return placed_; }
  [[nodiscard]] std::uint64_t impossible() const { return impossible_; }
  [[nodiscard]] const std::optional<Misplaced>& first() const { return first_; }
  static constexpr std::uint64_t kFewest = 3;
  // Returns whether the events contradict the alignment. A few events may be wrong, because the
  // clock was set or because the kernel took an entry back. So at least kFewest of them, and one in
  // a hundred, must be misplaced.
  [[nodiscard]] bool contradicts() const {
    return impossible_ >= kFewest && impossible_ * 100 >= placed_;
  }

 private:
  void on_run(const GuestRun& run);
  static constexpr std::size_t kMostDoubtful = 64;  // per run
  static constexpr std::size_t kMostThreads = 4096;

  std::vector<std::optional<std::uint64_t>> errors_;
  // By vCPU thread: events in the current run of its guest, further from the entry than the error
  // bound.
  ThreadTable<std::vector<Misplaced>> doubtful_;
  std::uint64_t placed_ = 0, impossible_ = 0;
  std::optional<Misplaced> first_;
};

}  // namespace trapline
