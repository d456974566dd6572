#include "merge/record/page_cut.h"

#include <algorithm>

namespace trapline::record {
namespace {

using kernel_events::RecordedEvent;
using trace_dat::RingPage;

void put_commit(std::span<std::byte> page, std::uint64_t commit) {
  std::memcpy(page.data() + 8, &commit, kCommitSize);  // little-endian, as the readers expect
}

// Returns where the header of the first event from `at` on begins: after time extends, time stamps
// and discarded events.
const std::byte* event_header(const std::byte* at) {
  constexpr std::uint32_t kPadding = 29, kTimeExtend = 30;
  for (;;) {
    const std::uint32_t kind = load<std::uint32_t>(at) & 0x1f;
    if (kind < kPadding) return at;
    at += kind >= kTimeExtend ? 8 : 4 + load<std::uint32_t>(at + 4);
  }
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
  // The new page's header gets the time to which the delta of the first event is added. What stands
  // before that event's header, such as a time extend, is left out: libtraceevent reports a page's
  // loss only if the page begins with an event.
  const std::byte* begin = walk.position();
  std::uint64_t time = 0;
  const std::byte* end = begin;
  for (RecordedEvent event; walk.next(event);) {
    if (piece.events == 0 && event.time < from) {
      ++piece.skipped;
      begin = walk.position();
      continue;
    }
    if (event.time > to) break;
    if (piece.events == 0) {
      begin = event_header(begin);
      time = event.time - (load<std::uint32_t>(begin) >> 5);
    }
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
