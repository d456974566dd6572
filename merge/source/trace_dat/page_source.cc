#include "merge/source/trace_dat/page_source.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "backend_ftrace/base/saturated_sum.h"
#include "backend_ftrace/base/text.h"

namespace trapline::trace_dat {
namespace {

constexpr std::size_t kReadAhead = 2u << 20;  // bytes for all CPUs: about what a cache holds
constexpr std::size_t kLargestBuffer = 256u << 10;

}  // namespace

PageSource::PageSource(std::shared_ptr<const TraceFile> recording, Capabilities capabilities)
    : TraceDatSource(std::move(recording), capabilities) {
  std::size_t cpus = 0;
  for (const Buffer& buffer : layout_.buffers) cpus += buffer.cpus.size();
  const std::size_t size = std::min(kLargestBuffer, kReadAhead / std::max<std::size_t>(cpus, 1));
  streams_.reserve(cpus);
  for (const Buffer& buffer : layout_.buffers) {
    for (const CpuPages& pages : buffer.cpus) {
      streams_.emplace_back(file_, layout_, pages, buffer.page_size, size,
                            layout_.time_shift ? &*layout_.time_shift : nullptr, selected());
    }
  }
  page_losses_.resize(cpus);
}

bool PageSource::advance(std::size_t stream, Timestamp from) {
  CpuEvents& events = streams_[stream];
  if (events.advance_in_page()) return true;
  if (events.advance_page()) [[likely]] {
    count_unwanted(events.unwanted());
    if (const std::int64_t lost = events.lost_before(); lost != RingPage::kNoneLost) [[unlikely]] {
      losses_.push_back({stream, from, std::nullopt});
      if (lost > 0)
        page_losses_[stream].events =
            saturated_sum(page_losses_[stream].events, static_cast<std::uint64_t>(lost));
      else
        page_losses_[stream].all_counted = false;
    }
    return true;
  }
  if (!events.status())
    status_ = events.status();
  else
    end_stream(stream, from);
  return false;
}

// Adds a loss if the CPU's data ends early: from its last event to the end of all CPUs' data.
void PageSource::end_stream(std::size_t stream, Timestamp from) {
  std::int64_t lost = streams_[stream].is_cut() ? RingPage::kUnknownLost : RingPage::kNoneLost;
  const bool is_top = stream < layout_.buffers.front().cpus.size();
  for (const UnwrittenLoss& loss : layout_.unwritten) {
    if (!is_top || loss.cpu != streams_[stream].cpu() || loss.from != UnwrittenLoss::kAtEnd)
      continue;
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    lost = lost < 0 || loss.events == 0
               ? RingPage::kUnknownLost
               : static_cast<std::int64_t>(
                     std::min(kMost, saturated_sum(static_cast<std::uint64_t>(lost), loss.events)));
  }
  if (lost == RingPage::kNoneLost) return;
  if (const auto range = end_of_all_ ? std::nullopt : this->range()) end_of_all_ = range->second;
  losses_.push_back({stream, from, std::max(from, end_of_all_.value_or(from)), lost});
}

// Fetches the first event of every stream.
bool PageSource::start() {
  started_ = true;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (advance(i, Timestamp(0))) {
      heap_.push(i, streams_[i].peek().time);
    } else if (!status_) {
      return false;
    }
  }
  std::reverse(losses_.begin(), losses_.end());  // taken from the back, the lowest CPU first
  choose();
  return true;
}

// Makes the earliest stream current_ and takes it off the heap.
void PageSource::choose() {
  ended_ = heap_.empty();
  if (!ended_) go_on_with(heap_.pop());
}

void PageSource::go_on_with(std::size_t stream) {
  current_ = stream;
  stream_ = &streams_[stream];
  limit_ = heap_.top_time();
}

// Moves past current_'s event, which was returned; false if status_ has an error.
bool PageSource::advance_current() {
  consumed_ = false;
  if (advance(current_, scale_(streams_[current_].peek().time))) {
    const std::uint64_t time = streams_[current_].peek().time;
    if (!heap_.is_before_top(current_, time)) change_stream(time);
    return true;
  }
  if (!status_) return false;
  choose();
  return true;
}

// Changes to another stream, whose event comes before current_'s event at `time`. Not inlined, as
// next() would save registers for it at each event.
[[gnu::noinline]] void PageSource::change_stream(std::uint64_t time) {
  go_on_with(heap_.exchange(current_, time));
}

// Counts losses that the kernel counted and no page of the file reports: events overwritten after
// the last page, as with a full disk; events dropped; and events left on a CPU without pages. Our
// own recorder has options of its own for these.
void PageSource::count_unplaced() {
  counters_.counts_losses = !layout_.cpu_stats.empty();
  counters_.lost_unplaced = 0;
  const auto add = [this](std::uint64_t events) {
    counters_.lost_unplaced = saturated_sum(counters_.lost_unplaced, events);
  };
  const auto& top = layout_.buffers.front().cpus;
  for (const UnwrittenLoss& loss : layout_.unwritten) {
    const bool is_here = std::ranges::find(top, loss.cpu, &CpuPages::cpu) != top.end();
    if (!is_here || loss.from != UnwrittenLoss::kAtEnd)
      add(std::max<std::uint64_t>(loss.events, 1));
  }
  if (layout_.cpu_stats.empty() || layout_.cut || layout_.writer.starts_with("trapline")) return;
  std::map<std::pair<std::string_view, std::uint32_t>, PageLosses> by_cpu;
  std::set<std::string_view> buffers;  // the buffers that were recorded
  std::size_t stream = 0;
  for (const Buffer& buffer : layout_.buffers) {
    for (const CpuPages& pages : buffer.cpus) {
      by_cpu[{buffer.name, pages.cpu}] = page_losses_[stream++];
      buffers.insert(buffer.name);
    }
  }
  std::uint64_t counted = 0;
  for (const CpuStat& stat : layout_.cpu_stats) {
    if (!buffers.contains(stat.buffer)) continue;
    const auto [place, is_absent] = by_cpu.try_emplace({stat.buffer, stat.cpu});
    PageLosses& by_pages = place->second;
    if (by_pages.is_counted) continue;  // a second CPUSTAT
    by_pages.is_counted = true;
    add(stat.dropped);
    if (is_absent) add(stat.left);
    if (by_pages.all_counted && stat.overwritten > by_pages.events)
      add(stat.overwritten - by_pages.events);
    // `read` and `left` were not read at the same time, so both may count the same event.
    counted = saturated_sum(counted, is_absent ? stat.read : std::max(stat.read, stat.left));
  }
  fewer_ = counted - std::min(counted, counters().events);
}

// Ends reading: everything that exists was read.
Read PageSource::end() {
  if (layout_.cut && status_) {
    status_ = fail(ErrorKind::kDamaged,
                   "{}: cut off: {}; what is there was read; copy it again, or record again",
                   file_.path(), *layout_.cut);
  }
  constexpr std::uint64_t kFewPages = 8, kPercent = 100;
  const Damage damage = this->damage();
  counters_.damaged_pages = damage.damaged;
  count_unplaced();
  if (damage.damaged != 0) fewer_ = 0;  // the missing events are in the damaged pages
  counters_.counts_losses &= fewer_ == 0;
  if (status_ && damage.damaged > kFewPages && damage.damaged * kPercent > damage.pages) {
    status_ = fail(ErrorKind::kDamaged,
                   "{}: damaged: {}; what else is there was read; copy it again, or record again",
                   file_.path(), damage.text());
  }
  return Read::kEnd;
}

// Fills `event` from the stream current_; false if the stream is at a mark or a boundary page.
[[gnu::always_inline]] inline bool PageSource::fill(Event& event) {
  const CpuEvents& stream = *stream_;
  const kernel_events::RecordedEvent& recorded = stream.peek();
  if (recorded.data == nullptr) [[unlikely]] {
    if (stream.is_mark()) note_unwanted(scale_(recorded.time));
    return false;
  }
  decode(recorded, scale_(recorded.time), stream.cpu(), event);
  return true;
}

// Handles the usual case, in which an event follows another one of the same page.
Read PageSource::next(Event& event) {
  while (consumed_ && stream_->advance_in_page()) {
    const std::uint64_t time = stream_->peek().time;
    if (time >= limit_ && !heap_.is_before_top(current_, time)) change_stream(time);
    if (fill(event)) [[likely]]
      return Read::kEvent;
  }
  return next_carefully(event);
}

Read PageSource::next_carefully(Event& event) {
  if (!status_) return Read::kEnd;
  if (!started_) [[unlikely]] {
    if (!start()) return Read::kEnd;
  }
  for (;;) {
    if (consumed_ && !advance_current()) return Read::kEnd;
    if (!losses_.empty()) [[unlikely]] {
      const PendingLoss loss = losses_.back();
      losses_.pop_back();
      const CpuEvents& stream = streams_[loss.stream];
      const Timestamp to = loss.to ? *loss.to : scale_(stream.peek().time);
      const std::int64_t lost = loss.to ? loss.lost : stream.lost_before();
      fill_lost(stream.cpu(), loss.from, to, lost, event, !loss.to && left_out(stream));
      return Read::kEvent;
    }
    if (ended_) return end();
    consumed_ = true;
    if (fill(event)) return Read::kEvent;
  }
}

void PageSource::following(std::size_t most,
                           std::vector<kernel_events::RecordedEvent>& events) const {
  if (!consumed_) return;
  for (const kernel_events::RecordedEvent& event : stream_->following())
    if (events.size() < most && event.data != nullptr) events.push_back(event);
}

PageSource::Damage PageSource::damage() const {
  constexpr std::size_t kMostPlaces = 8;
  Damage damage;
  for (const CpuEvents& stream : streams_) {
    const CpuEvents::PageCounts& counts = stream.page_counts();
    damage.pages += counts.all;
    damage.damaged += counts.damaged;
    for (const CpuEvents::Damaged& page : counts.first) {
      if (damage.places.size() == kMostPlaces) break;
      damage.places.push_back(fmt::format("CPU {} at offset {}, {}", stream.cpu(), page.offset,
                                          page.after == 0
                                              ? std::string("before its first event")
                                              : "after " + seconds_text(scale_(page.after).ns())));
    }
  }
  return damage;
}

std::string PageSource::Damage::text() const {
  return fmt::format("{} of {} pages, whose events are lost ({}{})", damaged, pages,
                     fmt::join(places, "; "), damaged > places.size() ? "; …" : "");
}

std::vector<std::pair<std::string, std::string>> PageSource::facts() const {
  auto facts = TraceDatSource::facts();
  if (const Damage damage = this->damage(); damage.damaged != 0)
    facts.emplace_back(kDamagedFact, damage.text());
  for (const UnwrittenLoss& loss : layout_.unwritten)
    facts.emplace_back(
        "note", fmt::format("events of CPU {} are missing: {}", loss.cpu, printable(loss.why)));
  if (fewer_ != 0) {
    facts.emplace_back("note", fmt::format("it holds {} fewer events than were read from the "
                                           "kernel's buffer (cut, split, or not written)",
                                           fewer_));
  }
  return facts;
}

double PageSource::progress() const {
  double done = 0;
  double all = 0;
  for (const CpuEvents& stream : streams_) {
    done += static_cast<double>(stream.pages().consumed());
    all += static_cast<double>(stream.pages().size());
  }
  return all > 0 ? done / all : 1;
}

}  // namespace trapline::trace_dat
