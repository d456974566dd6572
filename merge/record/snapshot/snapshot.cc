#include "merge/record/snapshot/snapshot.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "backend_ftrace/base/saturated_sum.h"

namespace trapline::record {
namespace {

using trace_dat::RingPage;

constexpr std::uint64_t kForEver = std::numeric_limits<std::uint64_t>::max();

constexpr std::uint64_t kLongestKept = 60'000'000'000;    // of an exit that does not end
constexpr unsigned kMostPerRound = 64, kLeastOfACpu = 4;  // pages

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

Snapshot::Snapshot(const SnapshotOptions& options, TriggerMatcher watch, Alive alive, Sink sink)
    : options_(options),
      watch_(std::move(watch)),
      alive_(std::move(alive)),
      sink_(std::move(sink)),
      cpus_(options.cpus),
      out_(options.page_size),
      empty_(options.page_size) {
  // A quarter of the ring is for the pages of one round, so that they push no older ones out of it
  // before those of the same time on other CPUs were read.
  const std::size_t of_all =
      std::max<std::size_t>(options.cpus, 1) * (options.page_size + sizeof(HeldPage));
  options_.ring_bytes = std::max(options.ring_bytes, kLeastOfACpu * of_all);
  round_pages_ = static_cast<unsigned>(
      std::clamp<std::size_t>(options_.ring_bytes / 4 / of_all, 1, kMostPerRound));
}

Result<void> Snapshot::add(unsigned cpu, std::span<const std::byte> page) {
  const auto facts = look_at_page(page);
  if (!facts) {
    return fail(ErrorKind::kDamaged, "CPU {}: the data from the kernel is not a ring-buffer page",
                cpu);
  }
  Cpu& state = cpus_[cpu];
  if (facts->events == 0) {  // what it says was lost counts for the next
    state.missing_unknown |= facts->lost < 0;
    state.missing += facts->lost > 0 ? static_cast<std::uint64_t>(facts->lost) : 0;
    return {};
  }
  newest_ = std::max(newest_, facts->last);
  oldest_ = std::min(oldest_, facts->first);
  state.complete = std::max(state.complete, facts->last);
  held_ += facts->used + sizeof(HeldPage);
  state.pages.emplace_back(page, *facts);
  if (held_ > options_.ring_bytes) make_room(options_.ring_bytes);
  return {};
}

Result<void> Snapshot::result() const {
  if (broken_) return tl::unexpected(*broken_);
  return {};
}

void Snapshot::drained(unsigned cpu) {
  cpus_[cpu].complete = std::max(cpus_[cpu].complete, newest_before_);
}

std::uint64_t Snapshot::complete_to() const {
  std::uint64_t time = kForEver;
  for (const Cpu& cpu : cpus_) time = std::min(time, cpu.complete);
  return time;
}

// Puts the next event that the watch wants in view, or, without data, the next loss.
bool Snapshot::to_next_wanted(unsigned index) {
  Cpu& cpu = cpus_[index];
  for (;;) {
    while (cpu.walk.next(cpu.next)) {
      if (cpu.next.size >= 2 && watch_.wants(load<std::uint16_t>(cpu.next.data))) return true;
    }
    if (cpu.next_page == cpu.pages.size()) return false;
    const HeldPage& page = cpu.pages[cpu.next_page++];
    (void)cpu.walk.load(page.span(), kCommitSize);  // look_at_page() has walked it
    const std::uint64_t before = std::exchange(cpu.seen, page.facts.last);
    if (page.facts.lost == RingPage::kNoneLost) continue;
    cpu.next = {before, nullptr, 0};
    cpu.lost_to = page.facts.first;
    return true;
  }
}

// Gives the watch the events up to `time`, in order over all CPUs.
void Snapshot::watch_to(std::uint64_t time) {
  for (unsigned cpu = 0; cpu < cpus_.size(); ++cpu) {
    if (cpus_[cpu].in_heap || !to_next_wanted(cpu)) continue;
    cpus_[cpu].in_heap = true;
    heap_.push(cpu, cpus_[cpu].next.time);
  }
  while (!heap_.empty() && heap_.top_time() <= time) {
    const auto cpu = static_cast<unsigned>(heap_.pop());
    bool more = true;
    do {
      if (cpus_[cpu].next.data == nullptr) {
        watch_.on_lost(cpu, cpus_[cpu].next.time, cpus_[cpu].lost_to);
      } else {
        watch_.on(cpus_[cpu].next, cpu);
      }
      more = to_next_wanted(cpu);
    } while (more && cpus_[cpu].next.time <= time &&
             heap_.is_before_top(cpu, cpus_[cpu].next.time));
    cpus_[cpu].in_heap = more;
    if (more) heap_.push(cpu, cpus_[cpu].next.time);
  }
}

// A window for each new hit, as far back as nothing is decided yet.
void Snapshot::take_hits() {
  for (const Hit& hit : watch_.take_hits()) {
    ++facts_.hits;
    facts_.latest = hit;
    facts_.still_open += hit.open ? 1 : 0;
    facts_.near_loss += hit.near_loss ? 1 : 0;
    if (hit.end - hit.start > facts_.longest.end - facts_.longest.start) facts_.longest = hit;
    if (facts_.first_hits.size() < SnapshotFacts::kMost) facts_.first_hits.push_back(hit);
    const std::uint64_t from = minus(hit.start, options_.around_ns);
    const bool kept = std::any_of(
        windows_.all().begin(), windows_.all().end(),
        [&](const Window& w) { return w.from <= from && decided_ <= saturated_sum(w.to, 1); });
    if (std::max(from, oldest_) < decided_ && !kept) ++facts_.shortened;
    const std::uint64_t to = saturated_sum(hit.end, options_.around_ns);
    if (to < decided_) continue;  // all of it is gone: the ring was too small
    windows_.add({std::max(from, decided_), to});
  }
}

// The windows of exits that go on, as far as they go by now.
void Snapshot::keep_certain(std::uint64_t complete) {
  for (const auto& [thread, start] : watch_.certain()) {
    if (std::exchange(told_[thread], start) != start) {
      ++facts_.certain;
      facts_.latest_certain = {start, complete, thread, kNoVcpu, {}, true};
    }
    const std::uint64_t from = minus(start, options_.around_ns);
    const std::uint64_t to =
        saturated_sum(std::min(complete, saturated_sum(start, kLongestKept)), options_.around_ns);
    if (to >= decided_) windows_.add({std::max(from, decided_), to});
  }
}

Result<void> Snapshot::end_round() {
  const std::uint64_t complete = complete_to();
  watch_to(complete);
  watch_.look_after_open(complete, alive_);
  take_hits();
  keep_certain(complete);
  if (facts_.cannot_hit.empty()) facts_.cannot_hit = watch_.cannot_hit(false);
  // What a hit to come can reach back to.
  const std::uint64_t open = watch_.earliest_open().value_or(kForEver);
  decide(minus(std::min(complete, open), options_.around_ns));
  make_room(options_.ring_bytes -
            round_pages_ * options_.cpus * (options_.page_size + sizeof(HeldPage)));
  return result();
}

Result<void> Snapshot::finish() {
  watch_to(kForEver);
  watch_.finish(newest_, alive_);
  if (facts_.cannot_hit.empty()) facts_.cannot_hit = watch_.cannot_hit(true);
  decide(kForEver);
  return result();
}

// The oldest pages go, whatever may yet be found. A hit found by a watch that had to look too early
// at one CPU is at worst one that is none: its window is kept as well.
void Snapshot::make_room(std::size_t bytes) {
  while (held_ > bytes) {
    std::uint64_t oldest = kForEver;
    for (const Cpu& cpu : cpus_) {
      if (!cpu.pages.empty()) oldest = std::min(oldest, cpu.pages.front().facts.last);
    }
    decide(saturated_sum(oldest, 1));
  }
}

// Writes or leaves out the pages whose events are all older than `before`, once they were watched.
void Snapshot::decide(std::uint64_t before) {
  before = std::max(before, decided_);
  watch_to(before);
  take_hits();
  decided_ = before;
  for (unsigned cpu = 0; cpu < cpus_.size(); ++cpu) {
    while (!cpus_[cpu].pages.empty() &&
           (cpus_[cpu].pages.front().facts.last < decided_ || decided_ == kForEver)) {
      release_front(cpu);
    }
  }
  // On each CPU, up to where nothing is held and nothing may come; windows before that are done.
  std::uint64_t past = kForEver;
  for (unsigned cpu = 0; cpu < cpus_.size(); ++cpu) {
    std::uint64_t settled = newest_;
    if (decided_ != kForEver) {
      settled = minus(std::min(decided_, cpus_[cpu].complete), 1);
      if (!cpus_[cpu].pages.empty()) {
        settled = std::min(settled, minus(cpus_[cpu].pages.front().facts.first, 1));
      }
    }
    write_edges(cpu, settled);
    past = std::min(past, settled);
  }
  for (const Window& window : windows_.take_before(decided_ == kForEver ? kForEver : past)) {
    ++facts_.windows;
    if (facts_.first_windows.size() < SnapshotFacts::kMost) facts_.first_windows.push_back(window);
  }
}

void Snapshot::release_front(unsigned index) {
  Cpu& cpu = cpus_[index];
  const HeldPage page = std::move(cpu.pages.front());
  cpu.pages.pop_front();
  if (cpu.next_page > 0 && --cpu.next_page == 0) cpu.walk = RingPage();
  held_ -= page.facts.used + sizeof(HeldPage);
  write(index, page);
}

// The empty pages of the windows that begin or end up to `to`. All that is older was written.
void Snapshot::write_edges(unsigned index, std::uint64_t to) {
  Cpu& cpu = cpus_[index];
  for (const Window& window : windows_.all()) {
    if (window.from > to) break;
    if (cpu.ended != kNoWindow && window.from <= cpu.ended) continue;
    if (cpu.begun != window.from) {
      cpu.begun = window.from;
      cpu.fresh = RingPage::kNoneLost;
      if (window.from > oldest_) {  // else nothing is left out before it
        const bool counted = cpu.missing != 0 && !cpu.missing_unknown;
        cpu.fresh = counted ? static_cast<std::int64_t>(cpu.missing) : RingPage::kUnknownLost;
        write_empty(index, window.from, cpu.fresh);
      }
      cpu.missing = 0;
      cpu.missing_unknown = false;
    }
    if (window.to >= to) break;
    write_empty(index, window.to, RingPage::kNoneLost);
    cpu.ended = window.from;
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

void Snapshot::write(unsigned index, const HeldPage& page) {
  Cpu& cpu = cpus_[index];
  write_edges(index, minus(page.facts.first, 1));
  std::int64_t lost = page.facts.lost;  // before the page's first event
  std::uint32_t done = 0;               // events of the page
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
    if (window.from > page.facts.last || window.to < page.facts.first) continue;
    const CutPage piece = cut_page(page.span(), window.from, window.to, out_);
    leave_out(piece.skipped);
    write_edges(index, window.from);
    if (piece.events == 0) continue;
    done = piece.skipped + piece.events;
    if (lost != RingPage::kNoneLost) {
      // The kernel's own loss, inside the window: not the one that its first page tells of.
      if (cpu.fresh != RingPage::kNoneLost) write_empty(index, cpu.begun, RingPage::kNoneLost);
      cpu.fresh = std::exchange(lost, RingPage::kNoneLost);
    }
    mark_missed(out_, piece.used, std::exchange(cpu.fresh, RingPage::kNoneLost));
    sink(index, out_, piece.events);
  }
  leave_out(page.facts.events);
}

}  // namespace trapline::record
