#include "merge/record/snapshot.h"

#include <cstring>
#include <limits>
#include <utility>

#include "backend_ftrace/base/saturated_sum.h"

namespace trapline::record {
namespace {

using trace_dat::RingPage;

constexpr std::uint64_t kForEver = std::numeric_limits<std::uint64_t>::max();

constexpr std::uint64_t kLongestKept = 60'000'000'000;    // ns, of an exit that does not end
constexpr unsigned kMostPerRound = 64, kLeastOfACpu = 4;  // pages

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

Snapshot::Snapshot(const RingLimits& options, TriggerMatcher watch, Alive alive, Sink sink)
    : options_(options),
      watch_(std::move(watch)),
      alive_(std::move(alive)),
      sink_(std::move(sink)),
      ring_(options.cpus),
      cpus_(options.cpus),
      out_(options.page_size),
      empty_(options.page_size) {
  // A quarter of the ring is for the pages of one round, so that these do not push out older pages
  // before the pages of the same time on other CPUs were read.
  const std::size_t of_all =
      std::max<std::size_t>(options.cpus, 1) * (options.page_size + KeptPage::kOverhead);
  options_.ring_bytes = std::max(options.ring_bytes, kLeastOfACpu * of_all);
  round_pages_ = static_cast<unsigned>(
      std::clamp<std::size_t>(options_.ring_bytes / 4 / of_all, 1, kMostPerRound));
}

Result<void> Snapshot::page(unsigned cpu, std::span<const std::byte> page) {
  const auto facts = ring_.add(cpu, page);
  if (!facts) return tl::unexpected(facts.error());
  if (ring_.held_bytes() > options_.ring_bytes) make_room(options_.ring_bytes);
  return {};
}

Result<void> Snapshot::result() const {
  if (broken_) return tl::unexpected(*broken_);
  return {};
}

// Passes the events up to `time` to the watch, in order over all CPUs.
void Snapshot::watch_to(std::uint64_t time) {
  const auto wants = [this](const kernel_events::RecordedEvent& event) {
    return event.size >= 2 && watch_.wants(load<std::uint16_t>(event.data));
  };
  while (ring_.next(time, wants)) {
    const PageRing::Item& item = ring_.item();
    if (item.event.data == nullptr) {
      watch_.on_lost(item.cpu, item.event.time, item.lost_to);
    } else {
      watch_.on(item.event, item.cpu);
    }
  }
}

// Adds a window around each new hit. No window begins before decided_: all pages up to that time
// have been written or left out.
void Snapshot::take_hits() {
  for (const SessionHit& hit : watch_.take_hits()) {
    ++facts_.hits;
    facts_.latest = hit;
    facts_.near_loss += hit.near_loss ? 1 : 0;
    if (!facts_.longest || hit.ns > facts_.longest->ns) facts_.longest = hit;
    if (facts_.first_hits.size() < SnapshotFacts::kMost) facts_.first_hits.push_back(hit);
    const std::uint64_t from = minus(hit.at_ns, options_.keep_ns);
    const bool kept =
        std::any_of(windows_.all().begin(), windows_.all().end(), [&](const Window& w) {
          return w.from_ns <= from && decided_ <= saturated_sum(w.to_ns, 1);
        });
    if (std::max(from, ring_.first()) < decided_ && !kept) ++facts_.shortened;
    const std::uint64_t to = saturated_sum(hit.at_ns + hit.ns, options_.keep_ns);
    if (to < decided_) continue;  // its pages are gone: the ring was too small
    windows_.add({std::max(from, decided_), to});
  }
}

// Extends the windows of exits that are certainly hits and have not ended yet.
void Snapshot::keep_certain(std::uint64_t complete) {
  for (const auto& [thread, start] : watch_.certain()) {
    if (std::exchange(told_[thread], start) != start) {
      ++facts_.certain;
      facts_.latest_certain = {start, complete - start, {}, tid_of(thread), {}, true};
    }
    const std::uint64_t from = minus(start, options_.keep_ns);
    const std::uint64_t to =
        saturated_sum(std::min(complete, saturated_sum(start, kLongestKept)), options_.keep_ns);
    if (to >= decided_) windows_.add({std::max(from, decided_), to});
  }
}

Result<void> Snapshot::end_round() {
  const std::uint64_t complete = ring_.complete();
  watch_to(complete);
  watch_.look_after_open(complete, alive_);
  take_hits();
  keep_certain(complete);
  const std::uint64_t open = watch_.earliest_open().value_or(kForEver);
  decide(minus(std::min(complete, open), options_.keep_ns));
  make_room(options_.ring_bytes -
            round_pages_ * options_.cpus * (options_.page_size + KeptPage::kOverhead));
  return result();
}

Result<void> Snapshot::finish() {
  watch_to(kForEver);
  watch_.finish(ring_.newest(), alive_);
  decide(kForEver);
  return result();
}

// Writes or leaves out the oldest pages, even if a later hit would need them. The watch then goes
// over their events before older ones of other CPUs have been read: at worst it finds a hit that is
// none, and a window too many is kept.
void Snapshot::make_room(std::size_t bytes) {
  while (ring_.held_bytes() > bytes) {
    const auto oldest = ring_.oldest(PageRing::Which::kAny);
    if (!oldest) return;
    decide(saturated_sum(ring_.pages(*oldest).front().facts.last, 1));
  }
}

// Writes or leaves out the pages that were watched and whose events are all older than `before`.
void Snapshot::decide(std::uint64_t before) {
  before = std::max(before, decided_);
  watch_to(before);
  take_hits();
  decided_ = before;
  for (unsigned cpu = 0; cpu < cpus_.size(); ++cpu) {
    const auto& pages = ring_.pages(cpu);
    while (!pages.empty() && (pages.front().facts.last < decided_ || decided_ == kForEver))
      write(cpu, ring_.take_front(cpu));
  }
  // The time up to which no CPU holds a page or may get one: windows that end before are finished.
  std::uint64_t past = kForEver;
  for (unsigned cpu = 0; cpu < cpus_.size(); ++cpu) {
    std::uint64_t settled = ring_.newest();
    if (decided_ != kForEver) {
      settled = minus(std::min(decided_, ring_.complete(cpu)), 1);
      if (const auto& pages = ring_.pages(cpu); !pages.empty())
        settled = std::min(settled, minus(pages.front().facts.first, 1));
    }
    write_edges(cpu, settled);
    past = std::min(past, settled);
  }
  for (const Window& window : windows_.take_before(decided_ == kForEver ? kForEver : past)) {
    ++facts_.windows;
    if (facts_.first_windows.size() < SnapshotFacts::kMost) facts_.first_windows.push_back(window);
  }
}

// Writes the empty pages of the windows that begin or end before or at `to`. All pages before `to`
// have been written or left out.
void Snapshot::write_edges(unsigned index, std::uint64_t to) {
  Cpu& cpu = cpus_[index];
  for (const Window& window : windows_.all()) {
    if (window.from_ns > to) break;
    if (cpu.ended != kNoWindow && window.from_ns <= cpu.ended) continue;
    if (cpu.begun != window.from_ns) {
      cpu.begun = window.from_ns;
      cpu.fresh = RingPage::kNoneLost;
      if (window.from_ns > ring_.first()) {  // else no event is left out before the window
        const bool counted = cpu.missing != 0 && !cpu.missing_unknown;
        cpu.fresh = counted ? static_cast<std::int64_t>(cpu.missing) : RingPage::kUnknownLost;
        write_empty(index, window.from_ns, cpu.fresh);
      }
      cpu.missing = 0;
      cpu.missing_unknown = false;
    }
    if (window.to_ns >= to) break;
    write_empty(index, window.to_ns, RingPage::kNoneLost);
    cpu.ended = window.from_ns;
  }
}

void Snapshot::write_empty(unsigned cpu, std::uint64_t time, std::int64_t lost) {
  std::fill(empty_.begin(), empty_.end(), std::byte{0});
  std::memcpy(empty_.data(), &time, sizeof time);
  mark_missed(empty_, kPageHead, lost);
  sink(cpu, empty_, 0);
}

void Snapshot::sink(unsigned cpu, std::span<const std::byte> page, std::uint32_t events) {
  if (!broken_) {
    const auto sunk = sink_(cpu, page);
    if (sunk) {
      facts_.kept_events += events;
      return;
    }
    broken_ = sunk.error();
  }
  facts_.unwritten_events += events;
  if (events != 0) ++cpus_[cpu].unwritten;
}

void Snapshot::write(unsigned index, const KeptPage& page) {
  Cpu& cpu = cpus_[index];
  write_edges(index, minus(page.facts.first, 1));
  std::int64_t lost = page.facts.lost;  // before the page's first event
  std::uint32_t done = 0;               // the page's events that were written or left out
  const auto leave_out = [&](std::uint32_t up_to) {
    if (up_to > done && lost != RingPage::kNoneLost) {
      cpu.missing_unknown |= lost < 0;
      cpu.missing += lost > 0 ? static_cast<std::uint64_t>(lost) : 0;
      lost = RingPage::kNoneLost;
    }
    cpu.missing += up_to - done;
    facts_.left_out_events += up_to - done;
    done = up_to;
  };
  for (const Window& window : windows_.all()) {
    if (window.from_ns > page.facts.last || window.to_ns < page.facts.first) continue;
    const CutPage piece = cut_page(page.span(), window.from_ns, window.to_ns, out_);
    leave_out(piece.skipped);
    write_edges(index, window.from_ns);
    if (piece.events == 0) continue;
    done = piece.skipped + piece.events;
    if (lost != RingPage::kNoneLost) {
      // A loss by the kernel inside the window; not the one that the window's first page reports.
      if (cpu.fresh != RingPage::kNoneLost) write_empty(index, cpu.begun, RingPage::kNoneLost);
      cpu.fresh = std::exchange(lost, RingPage::kNoneLost);
    }
    mark_missed(out_, piece.used, std::exchange(cpu.fresh, RingPage::kNoneLost));
    sink(index, out_, piece.events);
  }
  leave_out(page.facts.events);
}

}  // namespace trapline::record
