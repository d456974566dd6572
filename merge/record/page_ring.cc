#include "merge/record/page_ring.h"

#include <limits>

namespace trapline::record {

using trace_dat::RingPage;

namespace {

// Returns the memory of a page, including what the allocator and the queue need.
std::size_t size_of(const KeptPage& page) { return page.facts.used + KeptPage::kOverhead; }

}  // namespace

Result<PageFacts> PageRing::add(unsigned index, std::span<const std::byte> bytes) {
  auto facts = look_at_page(bytes);
  if (!facts) {
    return fail(ErrorKind::kDamaged, "CPU {}: the data from the kernel is not a ring-buffer page",
                index);
  }
  Cpu& cpu = cpus_[index];
  cpu.complete = std::max(cpu.complete, facts->last);
  // --snapshot-on writes a page without data at each end of a window. A loss that such a page marks
  // is marked again on the next page with events, so the page can be skipped.
  if (facts->events == 0 && facts->used <= kPageHead) {
    if (facts->lost != RingPage::kNoneLost) cpu.lost_at_end = facts->lost;
    return *facts;
  }
  const bool unknown = facts->lost < 0 || cpu.lost < 0;
  facts->lost = unknown ? RingPage::kUnknownLost : facts->lost + cpu.lost;
  cpu.lost = cpu.lost_at_end = facts->events == 0 ? facts->lost : RingPage::kNoneLost;
  if (facts->events == 0) return *facts;
  first_ = std::min(first_, facts->first);
  newest_ = std::max(newest_, facts->last);
  held_ += size_of(cpu.pages.emplace_back(bytes, *facts));
  has_new_ = true;
  return *facts;
}

KeptPage PageRing::take_front(unsigned index) {
  Cpu& cpu = cpus_[index];
  KeptPage page = std::move(cpu.pages.front());
  cpu.pages.pop_front();
  if (cpu.next_page > 0 && --cpu.next_page == 0) cpu.walk = RingPage();
  held_ -= size_of(page);
  kept_from_ = std::max(kept_from_, page.facts.last + 1);
  return page;
}

std::uint64_t PageRing::complete() const {
  std::uint64_t time = std::numeric_limits<std::uint64_t>::max();
  for (const Cpu& cpu : cpus_) time = std::min(time, cpu.complete);
  return time;
}

// With kWalked, a page that is still being walked does not count.
std::optional<unsigned> PageRing::oldest(Which which) const {
  std::optional<unsigned> oldest;
  for (unsigned i = 0; i < cpus(); ++i) {
    if (cpus_[i].pages.empty() || (which == Which::kWalked && cpus_[i].next_page < 2)) continue;
    if (!oldest || cpus_[i].pages.front().facts.last < cpus_[*oldest].pages.front().facts.last)
      oldest = i;
  }
  return oldest;
}

bool PageRing::begin_page(Cpu& cpu) {
  const KeptPage& page = cpu.pages[cpu.next_page++];
  (void)cpu.walk.load(page.span(), kCommitSize);  // look_at_page() has already walked it
  const std::uint64_t before = std::exchange(cpu.seen, page.facts.last);
  if (page.facts.lost == RingPage::kNoneLost) return false;
  cpu.next.event = {before, nullptr, 0};
  cpu.next.lost_to = page.facts.first;
  cpu.next.lost = page.facts.lost;
  return true;
}

Result<RingPart> PageRing::write(unsigned index, std::uint64_t from, std::uint64_t to,
                                 std::size_t page_size, const Sink& sink) const {
  RingPart part;
  std::vector<std::byte> out(page_size);
  for (const KeptPage& page : cpus_[index].pages) {
    if (page.facts.last < from || page.facts.first > to) continue;
    const CutPage piece = cut_page(page.span(), from, to, out);
    if (piece.events == 0) continue;
    part.events += piece.events;
    if (piece.skipped == 0 && page.facts.lost != RingPage::kNoneLost) {
      mark_missed(out, piece.used, page.facts.lost);
      part.lost_unknown |= page.facts.lost < 0;
      part.lost += page.facts.lost > 0 ? static_cast<std::uint64_t>(page.facts.lost) : 0;
    }
    if (auto sunk = sink(out); !sunk) return tl::unexpected(std::move(sunk).error());
  }
  // A loss that an empty page reported after the CPU's last event belongs to what is written here,
  // unless `to` is before that event.
  const Cpu& cpu = cpus_[index];
  if (cpu.pages.empty() || cpu.pages.back().facts.last <= to) {
    part.lost_unknown |= cpu.lost_at_end < 0;
    part.lost += cpu.lost_at_end > 0 ? static_cast<std::uint64_t>(cpu.lost_at_end) : 0;
  }
  return part;
}

}  // namespace trapline::record
