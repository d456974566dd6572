// Holds the last seconds of the pages of all CPUs in memory.
//
//   page of a CPU ── page() ─> PageRing ── older than the span, or the ring is full: dropped
//                                 └─ write(cpu, from, to) ──> pages with just these events ──> sink
//
// Guarantees: at most `ring_bytes` of pages. From begin() on, the events of every CPU are complete,
// except those that the kernel lost, whose marks stay on the pages.
//
// Why not the kernel's own buffer in overwrite mode, which costs no CPU time at all: its size is
// fixed for each CPU, so a minute of the busiest CPU takes as much memory for every other CPU, and
// none of it can be swapped; reading it empties it and marks losses; and --snapshot-on has to see
// the events anyway. Reading 20,000 events a second takes 300 pages a second: docs/performance.md
// has what that costs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backend_ftrace/base/result.h"
#include "merge/record/page_ring.h"
#include "merge/record/page_sink.h"

namespace trapline::record {

class FlightRing final : public PageSink {
 public:
  explicit FlightRing(const RingLimits& options) : options_(options), ring_(options.cpus) {}

  // Adds the page. Then drops the CPU's pages that are older than the span and, while the ring
  // holds too many bytes, the oldest page of all CPUs. Errors (kDamaged): the bytes are not a
  // ring-buffer page.
  [[nodiscard]] Result<void> page(unsigned cpu, std::span<const std::byte> page) override {
    if (auto added = ring_.add(cpu, page); !added) return tl::unexpected(added.error());
    const auto& pages = ring_.pages(cpu);
    while (!pages.empty() && pages.front().facts.last < span_begin()) drop_front(cpu);
    while (held_bytes() > options_.ring_bytes) {
      const auto oldest = ring_.oldest(PageRing::Which::kAny);
      if (!oldest) break;
      drop_front(*oldest);
    }
    return {};
  }

  // begin() returns the time from which the ring has every event, newest() the latest stamp. Both
  // are 0 while there are no events.
  [[nodiscard]] std::uint64_t begin() const {
    if (newest() == 0) return 0;
    const std::uint64_t kept = dropped_to_ == 0 ? ring_.first() : dropped_to_ + 1;
    return std::min(newest(), std::max(kept, span_begin()));
  }
  [[nodiscard]] std::uint64_t newest() const { return ring_.newest(); }
  // Returns whether a page inside the span had to be dropped because the ring was full.
  [[nodiscard]] bool is_short() const { return dropped_to_ != 0 && dropped_to_ >= span_begin(); }
  [[nodiscard]] std::size_t held_bytes() const { return ring_.held_bytes(); }

  [[nodiscard]] const PageRing& pages() const { return ring_; }

 private:
  [[nodiscard]] std::uint64_t span_begin() const {
    return newest() > options_.keep_ns ? newest() - options_.keep_ns : 0;
  }
  void drop_front(unsigned cpu) {
    dropped_to_ = std::max(dropped_to_, ring_.take_front(cpu).facts.last);
  }

  RingLimits options_;
  PageRing ring_;
  std::uint64_t dropped_to_ = 0;  // the latest stamp among all dropped pages
};

}  // namespace trapline::record
