#include "merge/record/flight_ring.h"

#include <algorithm>

namespace trapline::record {

// Adds the page. Then drops the CPU's pages that are older than the span and, while the ring holds
// too many bytes, the oldest page of all CPUs.
Result<void> FlightRing::page(unsigned cpu, std::span<const std::byte> page) {
  if (auto added = ring_.add(cpu, page); !added) return tl::unexpected(std::move(added).error());
  const auto& pages = ring_.pages(cpu);
  while (!pages.empty() && pages.front().facts.last < span_begin()) drop_front(cpu);
  while (held_bytes() > options_.ring_bytes) {
    const auto oldest = ring_.oldest(PageRing::Which::kAny);
    if (!oldest) break;
    drop_front(*oldest);
  }
  return {};
}

void FlightRing::drop_front(unsigned cpu) {
  dropped_to_ = std::max(dropped_to_, ring_.take_front(cpu).facts.last);
}

std::uint64_t FlightRing::begin() const {
  if (newest() == 0) return 0;
  const std::uint64_t kept = dropped_to_ == 0 ? ring_.first() : dropped_to_ + 1;
  return std::min(newest(), std::max(kept, span_begin()));
}

}  // namespace trapline::record
