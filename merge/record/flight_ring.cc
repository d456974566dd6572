#include "merge/record/flight_ring.h"

#include <algorithm>

namespace trapline::record {

using trace_dat::RingPage;

FlightRing::FlightRing(const FlightRingOptions& options) : options_(options), cpus_(options.cpus) {}

Result<void> FlightRing::add(unsigned index, std::span<const std::byte> bytes) {
  auto facts = look_at_page(bytes);
  if (!facts) {
    return fail(ErrorKind::kDamaged, "CPU {}: the data from the kernel is not a ring-buffer page",
                index);
  }
  Cpu& cpu = cpus_[index];
  const bool unknown = facts->lost < 0 || cpu.lost < 0;
  facts->lost = unknown ? RingPage::kUnknownLost : facts->lost + cpu.lost;
  cpu.lost = facts->events == 0 ? facts->lost : RingPage::kNoneLost;
  if (facts->events == 0) return {};
  newest_ = std::max(newest_, facts->last);
  oldest_ = std::min(oldest_, facts->first);
  held_ += size_of(cpu.pages.emplace_back(bytes, *facts));
  while (!cpu.pages.empty() && cpu.pages.front().facts.last < span_begin()) drop_front(cpu);
  make_room();
  return {};
}

void FlightRing::drop_front(Cpu& cpu) {
  const HeldPage& page = cpu.pages.front();
  dropped_to_ = std::max(dropped_to_, page.facts.last);
  held_ -= size_of(page);
  cpu.pages.pop_front();
}

// First what is older than the span on CPUs that had no page lately, then the oldest of all.
void FlightRing::make_room() {
  while (held_ > options_.ring_bytes) {
    Cpu* oldest = nullptr;
    for (Cpu& cpu : cpus_) {
      if (cpu.pages.empty()) continue;
      if (oldest == nullptr || cpu.pages.front().facts.last < oldest->pages.front().facts.last) {
        oldest = &cpu;
      }
    }
    if (oldest == nullptr) return;
    drop_front(*oldest);
  }
}

std::uint64_t FlightRing::begin() const {
  if (newest_ == 0) return 0;
  const std::uint64_t kept = dropped_to_ == 0 ? oldest_ : dropped_to_ + 1;
  return std::min(newest_, std::max(kept, span_begin()));
}

Result<FlightPart> FlightRing::write(unsigned index, std::uint64_t from, std::uint64_t to,
                                     const Sink& sink) const {
  FlightPart part;
  std::vector<std::byte> out(options_.page_size);
  for (const HeldPage& page : cpus_[index].pages) {
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
  return part;
}

}  // namespace trapline::record
