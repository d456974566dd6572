// What each vCPU's thread did lately: the guest ran, or the parts of its exits with who kept it
// waiting, in pieces that follow each other.
//
//   ── guest ──┬── kernel ──┬── user ──┬── preempted by A ──┬── preempted by B ──┬── kernel ──┬── guest ──
//          kvm_exit                                                           kvm_entry
//
// The latest kMost pieces of a thread are kept. What no piece covers is not known: losses, the time
// before its first exit, and what was longer ago.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/analyze/exit_tracker.h"

namespace trapline {

struct VcpuPiece {
  std::optional<Part> part;  // nothing: the guest ran
  Culprit culprit;           // kPreempted, kBlocked, sleeps of kHalted
  Timestamp begin, end;
  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
  [[nodiscard]] bool has_culprit() const {
    return part == Part::kPreempted || part == Part::kBlocked ||
           (part == Part::kHalted && culprit != Culprit());
  }
};

class VcpuHistory {
 public:
  static constexpr std::size_t kMost = 1u << 14;

  void add(const GuestRun& run);
  // `waits` are the exit's, by WaitTracker::shares(), and `halts` the sleeps in its halted time; it
  // needs its intervals. Halted time outside of the sleeps has no culprit.
  void add(const ExitSpan& exit, std::span<const WaitShare> waits,
           std::span<const WaitShare> halts = {});

  // Up to when the thread is known; nothing of one without a piece.
  [[nodiscard]] std::optional<Timestamp> known_until(ThreadId thread) const;
  // How many pieces between() returns at most.
  [[nodiscard]] std::size_t count(ThreadId thread, Timestamp begin, Timestamp end) const;
  // What is known between those two times, cut to them, in order of time.
  [[nodiscard]] std::vector<VcpuPiece> between(ThreadId thread, Timestamp begin,
                                               Timestamp end) const;

 private:
  void push(ThreadId thread, const VcpuPiece& piece);
  std::map<ThreadId, std::deque<VcpuPiece>> threads_;
};

}  // namespace trapline
