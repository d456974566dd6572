#include "merge/record/page_cut.h"

#include <algorithm>

namespace trapline::record {
namespace {

using kernel_events::RecordedEvent;
using trace_dat::RingPage;

void put_commit(std::span<std::byte> page, std::uint64_t commit) {
  std::memcpy(page.data() + 8, &commit, kCommitSize);  // little-endian, as the readers expect
}

}  // namespace

std::optional<PageFacts> look_at_page(std::span<const std::byte> page) {
  RingPage walk;
  if (!walk.load(page, kCommitSize)) return std::nullopt;
  PageFacts facts;
  facts.lost = walk.lost();
  for (RecordedEvent event; walk.next(event);) {
    facts.first = facts.events == 0 ? event.time : std::min(facts.first, event.time);
    facts.last = std::max(facts.last, event.time);
    ++facts.events;
  }
  if (walk.damaged()) return std::nullopt;
  facts.used = static_cast<std::size_t>(walk.position() - page.data());
  return facts;
}

CutPage cut_page(std::span<const std::byte> page, std::uint64_t from, std::uint64_t to,
                 std::span<std::byte> out) {
  CutPage piece;
  RingPage walk;
  if (!walk.load(page, kCommitSize)) return piece;
  // An event is copied from the end of the previous one, so that a time extend before it is copied
  // too. The new page gets the time before its first event, which that event's delta adds to.
  const std::byte* begin = walk.position();
  std::uint64_t time = load<std::uint64_t>(page.data());
  const std::byte* end = begin;
  for (RecordedEvent event; walk.next(event);) {
    if (piece.events == 0 && event.time < from) {
      ++piece.skipped;
      begin = walk.position();
      time = event.time;
      continue;
    }
    if (event.time > to) break;
    ++piece.events;
    piece.last = std::max(piece.last, event.time);
    end = walk.position();
  }
  if (piece.events == 0) return piece;
  const auto size = static_cast<std::size_t>(end - begin);
  piece.used = kPageHead + size;
  std::fill(out.begin(), out.end(), std::byte{0});
  std::memcpy(out.data(), &time, sizeof time);
  std::memcpy(out.data() + kPageHead, begin, size);
  put_commit(out, size);
  return piece;
}

void mark_missed(std::span<std::byte> page, std::size_t used, std::int64_t lost) {
  if (lost == RingPage::kNoneLost) return;
  std::uint64_t commit = (used - kPageHead) | RingPage::kMissed;
  if (lost > 0 && page.size() - used >= kCommitSize) {
    commit |= RingPage::kMissedStored;
    std::memcpy(page.data() + used, &lost, kCommitSize);
  }
  put_commit(page, commit);
}

}  // namespace trapline::record
