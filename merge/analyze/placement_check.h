// Whether the alignment of a log's clock can be true: while a vCPU runs its guest, its thread makes
// no event in user space. Pure; a stream with bounded state for each thread.
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

// An event of a program that its clock's alignment puts into the guest's run, wherever in its error
// it may be.
struct Misplaced {
  std::uint16_t source = 0;
  ThreadId thread{};
  Timestamp at, entry, exit;
};

class PlacementCheck {
 public:
  // By source: how far its times may be off, in the timeline's unit; nothing, and sources beyond
  // the list: not checked.
  explicit PlacementCheck(std::vector<std::optional<std::uint64_t>> errors)
      : errors_(std::move(errors)) {}
  // Whether any source is checked.
  [[nodiscard]] bool checks() const { return !errors_.empty(); }

  // Events of the host, in order of time, after `exits` took them.
  void on(const Event& event, const ExitTracker& exits);

  [[nodiscard]] std::uint64_t placed() const { return placed_; }  // on threads of vCPUs
  [[nodiscard]] std::uint64_t impossible() const { return impossible_; }
  [[nodiscard]] const std::optional<Misplaced>& first() const { return first_; }
  // Whether they contradict the alignment. A few events may be stamped by a clock that was set, or
  // lie beside an entry that the kernel took back: at least kFewest of them, and one in a hundred.
  static constexpr std::uint64_t kFewest = 3;
  [[nodiscard]] bool contradicts() const {
    return impossible_ >= kFewest && impossible_ * 100 >= placed_;
  }

 private:
  void on_run(const GuestRun& run);
  static constexpr std::size_t kMostDoubtful = 64;  // of a run
  static constexpr std::size_t kMostThreads = 4096;

  std::vector<std::optional<std::uint64_t>> errors_;
  // Of each vCPU's thread, in its guest's run: further from the entry than their error.
  ThreadTable<std::vector<Misplaced>> doubtful_;
  std::uint64_t placed_ = 0, impossible_ = 0;
  std::optional<Misplaced> first_;
};

}  // namespace trapline
