// Holds the last seconds of the pages of all CPUs in memory.
//
//   page of a CPU ── page() ─> PageRing ── older than the span, or the ring is full: dropped
//                                 └─ write(cpu, from, to) ──> pages with just these events ──> sink
//
// Guarantees: at most `ring_bytes` of pages. From begin() on, the events of every CPU are complete,
// except those that the kernel lost, whose marks stay on the pages.
//
// Why not the kernel's own buffer in overwrite mode, which costs no CPU time at all: its size is
// fixed for each CPU, so that a minute of the busiest takes that memory for all of them, and none
// of it can be swapped; reading it empties it and marks losses; and --snapshot-on has to see the
// events anyway. Reading 20,000 events a second takes 300 pages a second: docs/performance.md
// has what that costs.
#pragma once

#include <cstdint>
#include <span>

#include "backend_ftrace/base/result.h"
#include "merge/record/page_ring.h"
#include "merge/record/page_sink.h"

namespace trapline::record {

class FlightRing final : public PageSink {
 public:
  explicit FlightRing(const RingLimits& options) : options_(options), ring_(options.cpus) {}

  // Errors (kDamaged): the bytes are not a ring-buffer page.
  [[nodiscard]] Result<void> page(unsigned cpu, std::span<const std::byte> page) override;

  // Return the time since when nothing was dropped, and the last stamp; equal while there are no
  // events.
  [[nodiscard]] std::uint64_t begin() const;
  [[nodiscard]] std::uint64_t newest() const { return ring_.newest(); }
  // Returns whether a page inside the span had to be dropped because the ring was full.
  [[nodiscard]] bool is_short() const { return dropped_to_ != 0 && dropped_to_ >= span_begin(); }
  [[nodiscard]] std::size_t held_bytes() const { return ring_.held_bytes(); }

  [[nodiscard]] const PageRing& pages() const { return ring_; }

 private:
  [[nodiscard]] std::uint64_t span_begin() const {
    return newest() > options_.keep_ns ? newest() - options_.keep_ns : 0;
  }
  void drop_front(unsigned cpu);

  RingLimits options_;
  PageRing ring_;
  std::uint64_t dropped_to_ = 0;  // the latest stamp among all dropped pages
};

}  // namespace trapline::record
