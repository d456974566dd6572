#include "merge/analyze/vcpu_history.h"

#include <algorithm>
#include <functional>

namespace trapline {
namespace {

std::deque<VcpuPiece>::const_iterator first_that_ends_after(const std::deque<VcpuPiece>& pieces,
                                                            Timestamp begin) {
  return std::ranges::lower_bound(pieces, begin, std::ranges::less_equal(), &VcpuPiece::end);
}

}  // namespace

void VcpuHistory::push(ThreadId thread, const VcpuPiece& piece) {
  if (piece.end <= piece.begin) return;
  std::deque<VcpuPiece>& pieces = threads_[thread];
  if (pieces.size() >= kMost) pieces.pop_front();
  pieces.push_back(piece);
}

void VcpuHistory::add(const GuestRun& run) {
  push(run.thread, {std::nullopt, Culprit(), run.begin, run.end});
}

void VcpuHistory::add(const ExitSpan& exit, std::span<const WaitShare> waits,
                      std::span<const WaitShare> halts) {
  std::vector<VcpuPiece> pieces;
  auto sleep = halts.begin();
  for (const PartInterval& interval : exit.intervals) {
    if (interval.part == Part::kPreempted || interval.part == Part::kBlocked) continue;
    Timestamp at = interval.begin;
    for (; interval.part == Part::kHalted && sleep != halts.end() && sleep->begin < interval.end;
         ++sleep) {
      pieces.push_back({Part::kHalted, Culprit(), at, std::max(at, sleep->begin)});
      pieces.push_back({Part::kHalted, sleep->culprit, std::max(at, sleep->begin), sleep->end});
      at = std::max(at, sleep->end);
    }
    pieces.push_back({interval.part, Culprit(), at, interval.end});
  }
  for (const WaitShare& share : waits)
    pieces.push_back({share.part, share.culprit, share.begin, share.end});
  std::ranges::stable_sort(pieces, {}, &VcpuPiece::begin);
  for (const VcpuPiece& piece : pieces) push(exit.thread, piece);
}

std::optional<Timestamp> VcpuHistory::known_until(ThreadId thread) const {
  const auto found = threads_.find(thread);
  if (found == threads_.end() || found->second.empty()) return std::nullopt;
  return found->second.back().end;
}

std::size_t VcpuHistory::count(ThreadId thread, Timestamp begin, Timestamp end) const {
  const auto found = threads_.find(thread);
  if (found == threads_.end()) return 0;
  const std::deque<VcpuPiece>& pieces = found->second;
  const auto first = first_that_ends_after(pieces, begin);
  const auto last = std::ranges::lower_bound(first, pieces.end(), end, {}, &VcpuPiece::begin);
  return static_cast<std::size_t>(last - first);
}

std::vector<VcpuPiece> VcpuHistory::between(ThreadId thread, Timestamp begin, Timestamp end) const {
  std::vector<VcpuPiece> pieces;
  const auto found = threads_.find(thread);
  if (found == threads_.end()) return pieces;
  for (auto piece = first_that_ends_after(found->second, begin);
       piece != found->second.end() && piece->begin < end; ++piece) {
    VcpuPiece cut = *piece;
    cut.begin = std::max(cut.begin, begin);
    cut.end = std::min(cut.end, end);
    // The rest of an exit with more intervals than are kept overlaps what comes before it.
    if (!pieces.empty()) cut.begin = std::max(cut.begin, pieces.back().end);
    if (cut.end > cut.begin) pieces.push_back(cut);
  }
  return pieces;
}

}  // namespace trapline
