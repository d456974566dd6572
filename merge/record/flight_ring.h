// The last seconds of the pages of all CPUs, in memory.
//
//   page of a CPU ── add() ──> the CPU's queue ──> older than the span, or the ring is full: dropped
//                                     └─ write(cpu, from, to) ──> cut to the event, in order ──> sink
//
// Guarantees: at most `ring_bytes` of pages, whatever comes; a page holds its events only. From
// begin() on the events of every CPU are there, but for those that the kernel lost: its marks stay
// on the pages.
//
// Why not the kernel's own buffer in overwrite mode, which costs no CPU time at all: its size is
// fixed for each CPU, so that a minute of the busiest takes that memory for all of them, and none
// of it can be swapped; reading it empties it and marks losses; and --snapshot-on has to see the
// events anyway. Reading 20,000 events a second takes 300 pages a second: docs/performance.md
// has what that costs.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/record/snapshot/page_cut.h"

namespace trapline::record {

struct FlightRingOptions {
  std::uint64_t span_ns = 0;
  std::size_t ring_bytes = 0;  // of all CPUs
  std::size_t page_size = 4096;
  unsigned cpus = 1;
};

// What write() gave away, or begin() .. newest() holds, of one CPU.
struct FlightPart {
  std::uint64_t events = 0;
  std::uint64_t lost = 0;     // by the kernel, as far as it counted them
  bool lost_unknown = false;  // and more, without a count
};

class FlightRing {
 public:
  using Sink = std::function<Result<void>(std::span<const std::byte> page)>;

  explicit FlightRing(const FlightRingOptions& options);

  // Errors (kDamaged): what is no ring-buffer page.
  [[nodiscard]] Result<void> add(unsigned cpu, std::span<const std::byte> page);

  // Since when nothing was dropped, and the last stamp; equal while there are no events.
  [[nodiscard]] std::uint64_t begin() const;
  [[nodiscard]] std::uint64_t newest() const { return newest_; }
  // Whether a page that was younger than the span had to go.
  [[nodiscard]] bool is_short() const { return dropped_to_ != 0 && dropped_to_ >= span_begin(); }
  [[nodiscard]] std::size_t held_bytes() const { return held_; }

  // The events of a CPU from `from` to `to`, both included, as pages of the full size. They stay.
  [[nodiscard]] Result<FlightPart> write(unsigned cpu, std::uint64_t from, std::uint64_t to,
                                         const Sink& sink) const;

 private:
  struct Cpu {
    std::deque<HeldPage> pages;
    std::int64_t lost = 0;  // that a page without events told of; it counts for the next
  };
  [[nodiscard]] std::uint64_t span_begin() const {
    return newest_ > options_.span_ns ? newest_ - options_.span_ns : 0;
  }
  [[nodiscard]] static std::size_t size_of(const HeldPage& page) {
    return page.facts.used + sizeof(HeldPage) + 16;  // the allocator's
  }
  void drop_front(Cpu& cpu);
  void make_room();

  FlightRingOptions options_;
  std::vector<Cpu> cpus_;
  std::size_t held_ = 0;
  std::uint64_t newest_ = 0;
  std::uint64_t oldest_ = ~std::uint64_t{0};  // the first stamp of all
  std::uint64_t dropped_to_ = 0;              // the last stamp that was dropped
};

}  // namespace trapline::record
