// Holds pages of all CPUs in memory and walks over their events in order of time.
//
//   page of a CPU ── add() ──> the CPU's queue ── take_front() ──> its owner writes or drops it
//                                    └─ next(): the events and losses of all CPUs, each once
//
// The ring does not limit itself: its owner calls take_front() or shrink() to remove pages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/record/page_cut.h"
#include "merge/source/kernel_events/recorded_event.h"
#include "merge/source/merge_heap.h"

namespace trapline::record {

// The counts of one CPU's events and losses in the pages that PageRing::write() wrote.
struct RingPart {
  std::uint64_t events = 0;
  std::uint64_t lost = 0;     // by the kernel, as far as it counted them
  bool lost_unknown = false;  // there were further losses without a count
};

// Limits on the pages that a ring keeps: time and memory. Also the size of a page, and the number
// of CPUs.
struct RingLimits {
  std::uint64_t keep_ns = 0;
  std::size_t ring_bytes = 0;  // for all CPUs together
  std::size_t page_size = 4096;
  unsigned cpus = 1;
};

class PageRing {
 public:
  explicit PageRing(unsigned cpus) : cpus_(cpus) {}

  // Stores the page if it has events. The loss that a page without events reports is reported by
  // the CPU's next page or, as long as there is none, by write(). Errors (kDamaged): the bytes are
  // not a ring-buffer page.
  [[nodiscard]] Result<PageFacts> add(unsigned cpu, std::span<const std::byte> page);

  [[nodiscard]] unsigned cpus() const { return static_cast<unsigned>(cpus_.size()); }
  [[nodiscard]] const std::deque<KeptPage>& pages(unsigned cpu) const { return cpus_[cpu].pages; }
  // Returns how many pages of a CPU next() has not reached.
  [[nodiscard]] std::size_t ahead(unsigned cpu) const {
    return cpus_[cpu].pages.size() - cpus_[cpu].next_page;
  }
  [[nodiscard]] KeptPage take_front(unsigned cpu);
  // oldest() returns the CPU whose first page ends earliest. With kWalked, it considers only pages
  // from which next() has already returned all items.
  enum class Which : std::uint8_t { kAny, kWalked };
  [[nodiscard]] std::optional<unsigned> oldest(Which which) const;
  // Removes the oldest pages until the others take at most `bytes`.
  void shrink(std::size_t bytes, Which which) {
    while (held_ > bytes) {
      const auto cpu = oldest(which);
      if (!cpu) return;
      (void)take_front(*cpu);
    }
  }
  // Returns the time from which no page was removed; 0: none was.
  [[nodiscard]] std::uint64_t kept_from() const { return kept_from_; }

  // Notes that no event of the CPU up to `time` will be added. add() notes the same for the last
  // stamp of the page. complete() returns a time up to which this holds for the CPU, or for every
  // CPU.
  void set_complete(unsigned cpu, std::uint64_t time) {
    cpus_[cpu].complete = std::max(cpus_[cpu].complete, time);
  }
  [[nodiscard]] std::uint64_t complete(unsigned cpu) const { return cpus_[cpu].complete; }
  [[nodiscard]] std::uint64_t complete() const;

  [[nodiscard]] std::size_t held_bytes() const { return held_; }
  // Return the smallest and the largest stamp of all pages that were added.
  [[nodiscard]] std::uint64_t first() const { return first_; }
  [[nodiscard]] std::uint64_t newest() const { return newest_; }

  // write() passes a CPU's events from `from` to `to`, both included, to a Sink as pages of
  // `page_size`. The events stay in the ring.
  using Sink = std::function<Result<void>(std::span<const std::byte> page)>;
  [[nodiscard]] Result<RingPart> write(unsigned cpu, std::uint64_t from, std::uint64_t to,
                                       std::size_t page_size, const Sink& sink) const;

  // An event or, if `event` has no data, a loss: `lost` events from event.time until `lost_to`.
  struct Item {
    unsigned cpu = 0;
    kernel_events::RecordedEvent event;
    std::uint64_t lost_to = 0;
    std::int64_t lost = 0;
  };
  // Moves to the next item up to `to`: an event for which `wants(event)` is true, or any loss.
  // Returns false if there is none yet.
  [[nodiscard]] bool next(std::uint64_t to, const auto& wants) {
    look_at_new(wants);
    if (current_ != kNone) {
      const unsigned before = std::exchange(current_, kNone);
      if (to_next(cpus_[before], wants)) {
        const std::uint64_t time = cpus_[before].next.event.time;
        if (time <= to && heap_.is_before_top(before, time)) {
          current_ = before;
          return true;
        }
        push(before);
      }
    }
    if (heap_.empty() || heap_.top_time() > to) return false;
    current_ = static_cast<unsigned>(heap_.pop());
    cpus_[current_].in_heap = false;
    return true;
  }
  // Returns the item that next() moved to.
  [[nodiscard]] const Item& item() const { return cpus_[current_].next; }
  // Returns whether next() would find an item up to `to` on another CPU than item()'s.
  [[nodiscard]] bool has_next(std::uint64_t to, const auto& wants) {
    look_at_new(wants);
    return !heap_.empty() && heap_.top_time() <= to;
  }

 private:
  static constexpr unsigned kNone = ~0u;
  struct Cpu {
    std::deque<KeptPage> pages;
    std::size_t next_page = 0;  // the first page that the walk has not reached
    trace_dat::RingPage walk;   // over the page before next_page
    Item next;
    std::uint64_t seen = 0;  // the last stamp of the pages walked
    std::uint64_t complete = 0;
    std::int64_t lost = 0;  // loss to be reported by the CPU's next page with events
    // The loss after the CPU's last event, reported by a page without events, or even without data.
    std::int64_t lost_at_end = 0;
    bool in_heap = false;
  };
  void push(unsigned cpu) {
    cpus_[cpu].in_heap = true;
    heap_.push(cpu, cpus_[cpu].next.event.time);
  }
  void look_at_new(const auto& wants) {
    if (!std::exchange(has_new_, false)) return;
    for (unsigned cpu = 0; cpu < cpus(); ++cpu) {
      if (cpus_[cpu].in_heap || cpu == current_) continue;
      cpus_[cpu].next.cpu = cpu;
      if (to_next(cpus_[cpu], wants)) push(cpu);
    }
  }
  [[nodiscard]] static bool to_next(Cpu& cpu, const auto& wants) {
    for (;;) {
      while (cpu.walk.next(cpu.next.event))
        if (wants(cpu.next.event)) return true;
      if (cpu.next_page == cpu.pages.size()) return false;
      if (begin_page(cpu)) return true;
    }
  }
  // Moves to the next page. Returns whether it reports a loss, which is then the next item.
  [[nodiscard]] static bool begin_page(Cpu& cpu);

  std::vector<Cpu> cpus_;
  MergeHeap heap_;  // the CPUs that have a next item, except the current one
  unsigned current_ = kNone;
  bool has_new_ = false;
  std::size_t held_ = 0;
  std::uint64_t first_ = ~std::uint64_t{0}, newest_ = 0, kept_from_ = 0;
};

}  // namespace trapline::record
