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

class FlightRing final : public PageRing, public PageSink {
 public:
  explicit FlightRing(const RingLimits& limits) : PageRing(limits.cpus), limits_(limits) {}

  // Adds the page. Then drops the CPU's pages that are older than the span and, while the ring
  // holds too many bytes, the oldest page of all CPUs. Errors (kDamaged): the bytes are not a
  // ring-buffer page.
  [[nodiscard]] Result<void> page(unsigned cpu, std::span<const std::byte> page) override {
    if (auto added = add(cpu, page); !added) return tl::unexpected(added.error());
    while (!pages(cpu).empty() && pages(cpu).front().facts.last < span_begin())
      (void)take_front(cpu);
    shrink(limits_.ring_bytes, Which::kAny);
    return {};
  }

  // Returns the time from which the ring has every event; 0 while there are no events.
  [[nodiscard]] std::uint64_t begin() const {
    if (newest() == 0) return 0;
    const std::uint64_t kept = kept_from() == 0 ? first() : kept_from();
    return std::min(newest(), std::max(kept, span_begin()));
  }
  // Returns whether a page inside the span had to be dropped because the ring was full.
  [[nodiscard]] bool is_short() const { return kept_from() > span_begin(); }

 private:
  [[nodiscard]] std::uint64_t span_begin() const {
    return newest() > limits_.keep_ns ? newest() - limits_.keep_ns : 0;
  }

  RingLimits limits_;
};

}  // namespace trapline::record
