#include "merge/source/trace_dat/trace_dat_source.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "backend_ftrace/base/saturated_sum.h"
#include "backend_ftrace/base/text.h"
#include "merge/source/kernel_events/capability_looker.h"
#include "merge/source/trace_dat/tail.h"

namespace trapline::trace_dat {
namespace {

constexpr std::size_t kReadAhead = 2u << 20;  // bytes for all CPUs: about what a cache holds
constexpr std::size_t kLargestBuffer = 256u << 10;

constexpr std::size_t kBufferSize = 64u << 10;
constexpr std::uint64_t kEventsPerLook = 2048;

struct Looked {
  std::uint64_t events = 0, damaged_pages = 0;
};
Result<Looked> look_at(const File& file, const Layout& layout,
                       kernel_events::CapabilityLooker& looker, const std::vector<double>& places,
                       std::uint64_t events_each) {
  Looked seen;
  for (const Buffer& buffer : layout.buffers) {
    for (const CpuPages& pages : buffer.cpus) {
      CpuEvents events(file, layout, pages, buffer.page_size, kBufferSize, nullptr);
      for (const double place : places) {
        if (place > 0) {
          if (auto skipped = events.skip_to(place); !skipped)
            return tl::unexpected(std::move(skipped).error());
        }
        for (std::uint64_t i = 0; i < events_each && events.advance(); ++i) {
          looker.look(events.peek());
          if (events.peek().data != nullptr) ++seen.events;
        }
        if (!events.status()) return tl::unexpected(events.status().error());
      }
      seen.damaged_pages += events.page_counts().damaged;
    }
  }
  return seen;
}

// Returns whether the thread on a CPU changes before that CPU's first sched_switch and first loss.
// If so, sched_switch was enabled later than the other events.
bool switches_come_late(const File& file, const Layout& layout,
                        const kernel_events::Formats& formats) {
  if (layout.buffers.size() != 1) return false;  // each buffer has events of its own
  const Buffer& buffer = layout.buffers.front();
  for (const CpuPages& pages : buffer.cpus) {
    CpuEvents events(file, layout, pages, buffer.page_size, kBufferSize, nullptr);
    std::optional<ThreadId> last;
    for (std::uint64_t i = 0; i < kEventsPerLook && events.advance(); ++i) {
      Event event;
      if (last && events.lost_before() != RingPage::kNoneLost) break;
      if (events.peek().data == nullptr || !formats.decode(events.peek(), event)) continue;
      if (std::holds_alternative<SchedSwitch>(event.payload)) break;
      if (last && *last != event.thread) return true;
      last = event.thread;
    }
  }
  return false;
}

// Returns an Error that says why a recording has no events.
tl::unexpected<Error> no_events(const File& file, const Layout& layout) {
  if (layout.cut) {
    return fail(ErrorKind::kDamaged,
                "{}: cut off before the first of its events: {}; copy it again, or record again",
                file.path(), *layout.cut);
  }
  if (layout.has_text) {
    return fail(ErrorKind::kDamaged,
                "{}: holds a latency tracer's text instead of events; record events (-e), not -p",
                file.path());
  }
  return fail(ErrorKind::kDamaged,
              "{}: holds no events: every CPU's data is empty; was anything enabled while it was "
              "recorded, was there what --snapshot-on asks for, and did the recording end as it "
              "should?",
              file.path());
}

// Finds a recording's capabilities from samples of each CPU's first, middle and last pages. Reads
// the whole file only if the samples have no kvm_exit, because exits are modelled differently
// without that event. Errors: pages cannot be read; the recording has no event.
Result<Capabilities> sample_capabilities(const File& file, const Layout& layout,
                                         const kernel_events::Formats& formats) {
  kernel_events::CapabilityLooker looker(formats);
  auto looked = look_at(file, layout, looker, {0, 0.5, 0.98}, kEventsPerLook);
  if (looked && !looker.found().kvm_exit && !looker.is_complete())
    looked = look_at(file, layout, looker, {0}, std::numeric_limits<std::uint64_t>::max());
  if (!looked) return tl::unexpected(std::move(looked).error());
  if (looked->events == 0 && looked->damaged_pages != 0) {
    return fail(ErrorKind::kDamaged,
                "{}: damaged: none of its pages can be read; copy it again, or record again",
                file.path());
  }
  if (looked->events == 0) return no_events(file, layout);
  Capabilities found = looker.found();
  found.moves |= layout.cpu_count == 1;
  found.late_switches = found.sched_switch && switches_come_late(file, layout, formats);
  return found;
}

Result<TimeScale> scale_of(const File& file, const Layout& layout,
                           std::optional<std::uint64_t> tsc_khz, bool& cycles) {
  const bool tsc = layout.clock == "x86-tsc";
  cycles = false;
  if (tsc_khz && (!tsc || layout.tsc2nsec)) {
    return fail(ErrorKind::kUsage, "{}: --tsc-khz: the recording's clock is {}, in nanoseconds",
                file.path(), layout.clock);
  }
  constexpr std::uint64_t kFastest = 100'000'000;  // 100 GHz
  if (tsc_khz && (*tsc_khz == 0 || *tsc_khz > kFastest)) {
    return fail(ErrorKind::kUsage,
                "--tsc-khz {}: not a plausible TSC frequency; take the value from the host's "
                "kernel log (tsc: Detected ... MHz)",
                *tsc_khz);
  }
  if (tsc_khz) return TimeScale::from_khz(*tsc_khz, layout.offset_ns);
  if (layout.tsc2nsec)
    return TimeScale(layout.tsc2nsec->mult, layout.tsc2nsec->shift, layout.offset_ns);
  cycles = tsc;
  return TimeScale(1, 0, layout.offset_ns);
}

bool any_data(const Layout& layout) {
  return std::ranges::any_of(layout.buffers, [](const Buffer& buffer) {
    return std::ranges::any_of(buffer.cpus,
                               [](const CpuPages& cpu) { return cpu.pages.size != 0; });
  });
}

using Range = std::optional<std::pair<std::uint64_t, std::uint64_t>>;

void widen(Range& range, std::uint64_t time) {
  if (!range) range.emplace(time, time);
  range->first = std::min(range->first, time);
  range->second = std::max(range->second, time);
}

// Returns the recorded times of the recording's beginning and end, from the first and last events
// of each CPU; empty if there is no event.
Range time_range(const File& file, const Layout& layout) {
  constexpr std::size_t kAtOnce = 64u << 10;
  Range range;
  for (const Buffer& buffer : layout.buffers) {
    for (const CpuPages& cpu : buffer.cpus) {
      if (cpu.pages.size == 0) continue;
      const auto open = [&] {
        return CpuEvents(file, layout, cpu, buffer.page_size, kAtOnce,
                         layout.time_shift ? &*layout.time_shift : nullptr);
      };
      CpuEvents first = open();
      if (!first.advance()) continue;
      widen(range, first.peek().time);
      const double pages = static_cast<double>(cpu.pages.size) / buffer.page_size;
      bool ends = false;
      // Looks for the last event in the last pages; in all pages only if the last are damaged.
      for (const double place : {std::max(0.01, 1 - 1.5 / pages), 0.0}) {
        CpuEvents last = open();
        if (ends || !last.skip_to(place)) break;
        for (; last.advance(); ends = true) widen(range, last.peek().time);
      }
    }
  }
  return range;
}

// A loss on each CPU replaces the events of each change.
class ChangedSource final : public TraceDatSource {
 public:
  ChangedSource(std::shared_ptr<const TraceFile> recording, Capabilities capabilities,
                std::vector<ChangedTime> changes)
      : TraceDatSource(std::move(recording), capabilities),
        changes_(std::move(changes)),
        cpus_(std::clamp(layout().cpu_count, 1U, kMostChangedCpus)),
        told_(cpus_) {}

  Read take(Event& event) override {
    for (;;) {
      if (told_ < cpus_) return tell(event);
      const Read read = holds_ ? Read::kEvent : TraceDatSource::take(held_);
      holds_ = read == Read::kEvent;
      if (at_ == changes_.size() || (holds_ && held_.at < changes_[at_].from)) {
        if (std::exchange(holds_, false)) event = held_;
        return read;
      }
      if (!std::exchange(is_told_, true)) {
        told_ = 0;
      } else if (holds_ && held_.at < changes_[at_].to) {
        holds_ = false;
        ++left_out_;
      } else {
        ++at_;
        is_told_ = false;
      }
    }
  }
  Read pass_on(Event& event, std::uint64_t most, EventSink& sink) override {
    return Source::pass_on(event, most, sink);
  }
  [[nodiscard]] SourceCounters count() const override {
    SourceCounters counters = TraceDatSource::count();
    counters.events -= std::min(counters.events, left_out_);
    for (std::uint64_t i = 0; i < gaps_; ++i) counters.add_gap(0);
    return counters;
  }
  [[nodiscard]] Result<std::unique_ptr<Source>> reopen() const override {
    return std::make_unique<ChangedSource>(recording_, capabilities_, changes_);
  }

 private:
  static constexpr std::uint32_t kMostChangedCpus = 1U << 16;

  Read tell(Event& event) {
    event = Event();
    const auto& [from, to] = changes_[at_];
    event.at = from;
    event.cpu = told_++;
    event.thread = ThreadId{-1};
    event.payload = Lost{from, to, 0};
    ++gaps_;
    return Read::kEvent;
  }

  std::vector<ChangedTime> changes_;
  std::uint32_t cpus_ = 0, told_ = 0;  // told_: how many of this change's losses were returned
  std::size_t at_ = 0;                 // the next change, or the one that goes on
  bool is_told_ = false, holds_ = false;
  Event held_;
  std::uint64_t left_out_ = 0, gaps_ = 0;
};

}  // namespace

TraceDatSource::TraceDatSource(std::shared_ptr<const TraceFile> recording,
                               Capabilities capabilities)
    : KernelEventSource(recording->formats, recording->info, capabilities, recording->marker_calls),
      recording_(std::move(recording)),
      file_(recording_->file),
      layout_(recording_->layout),
      scale_(recording_->scale) {
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

bool TraceDatSource::advance(std::size_t stream, Timestamp from) {
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
void TraceDatSource::end_stream(std::size_t stream, Timestamp from) {
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
bool TraceDatSource::start() {
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
void TraceDatSource::choose() {
  ended_ = heap_.empty();
  if (!ended_) go_on_with(heap_.pop());
}

void TraceDatSource::go_on_with(std::size_t stream) {
  current_ = stream;
  stream_ = &streams_[stream];
  limit_ = heap_.top_time();
}

// Moves past current_'s event, which was returned; false if status_ has an error.
bool TraceDatSource::advance_current() {
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
// take() would save registers for it at each event.
[[gnu::noinline]] void TraceDatSource::change_stream(std::uint64_t time) {
  go_on_with(heap_.exchange(current_, time));
}

// Counts losses that the kernel counted and no page of the file reports: events overwritten after
// the last page, as with a full disk; events dropped; and events left on a CPU without pages. Our
// own recorder has options of its own for these.
void TraceDatSource::count_unplaced() {
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
  fewer_ = counted - std::min(counted, KernelEventSource::count().events);
}

// Ends reading: everything that exists was read.
Read TraceDatSource::end() {
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
[[gnu::always_inline]] inline bool TraceDatSource::fill(Event& event) {
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
[[gnu::always_inline]] inline bool TraceDatSource::take_in_page(Event& event) {
  while (consumed_ && stream_->advance_in_page()) {
    const std::uint64_t time = stream_->peek().time;
    if (time >= limit_ && !heap_.is_before_top(current_, time)) change_stream(time);
    if (fill(event)) [[likely]]
      return true;
  }
  return false;
}

Read TraceDatSource::take(Event& event) {
  return take_in_page(event) ? Read::kEvent : next_carefully(event);
}

// Does what Source::pass_on() does, without a call for each event.
Read TraceDatSource::pass_on(Event& event, std::uint64_t most, EventSink& sink) {
  if (is_placed()) return Source::pass_on(event, most, sink);
  for (; most != 0; --most) {
    if (!take_in_page(event)) [[unlikely]]
      if (const Read read = next_carefully(event); read != Read::kEvent) return read;
    if (!sink.push(event)) return Read::kEnd;
  }
  return Read::kEvent;
}

Read TraceDatSource::next_carefully(Event& event) {
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
      fill_lost(stream.cpu(), loss.from, to, lost, event, !loss.to && stream.left_out_before());
      return Read::kEvent;
    }
    if (ended_) return end();
    consumed_ = true;
    if (fill(event)) return Read::kEvent;
  }
}

void TraceDatSource::following(std::size_t most,
                               std::vector<kernel_events::RecordedEvent>& events) const {
  if (!consumed_) return;
  for (const kernel_events::RecordedEvent& event : stream_->following())
    if (events.size() < most && event.data != nullptr) events.push_back(event);
}

TraceDatSource::Damage TraceDatSource::damage() const {
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

std::string TraceDatSource::Damage::text() const {
  return fmt::format("{} of {} pages, whose events are lost ({}{})", damaged, pages,
                     fmt::join(places, "; "), damaged > places.size() ? "; …" : "");
}

double TraceDatSource::progress() const {
  double done = 0;
  double all = 0;
  for (const CpuEvents& stream : streams_) {
    done += static_cast<double>(stream.pages().consumed());
    all += static_cast<double>(stream.pages().size());
  }
  return all > 0 ? done / all : 1;
}

std::optional<std::pair<Timestamp, Timestamp>> TraceDatSource::range() const {
  const auto stamps = time_range(file_, layout_);
  if (!stamps) return std::nullopt;
  return std::pair(scale_(stamps->first), scale_(stamps->second));
}

Description TraceDatSource::describe() const {
  const Layout& layout = layout_;
  Description is = Source::describe();
  is.nanoseconds_of_tsc = is.clock == "x86-tsc" && !is.cycles;
  // "Linux NAME 6.1.0 x86_64"; some versions put the kernel's build date before the last word.
  const std::string& uname = layout.uname;
  const auto name = std::min(uname.find(' '), uname.size());
  const auto release = std::min(uname.find(' ', name + 1), uname.size());
  const auto after = std::min(uname.find(' ', release + 1), uname.size());
  if (after < uname.size()) {
    is.machine.name = uname.substr(name + 1, release - name - 1);
    is.machine.system = uname.substr(0, after) + uname.substr(uname.rfind(' '));
  }
  is.machine.cpus = layout.cpu_count;
  const RecorderText recorder = RecorderText::parse(layout.writer);
  is.recorder = recorder.process;
  is.selected = recorder.selected;
  is.shifted = layout.time_shift.has_value();
  is.trace_id = layout.trace_id;
  is.peer_id = layout.peer_id;
  is.guests = layout.guests;
  return is;
}

std::vector<std::pair<std::string, std::string>> TraceDatSource::facts() const {
  constexpr std::string_view kCompressions[] = {"uncompressed", "zstd", "zlib"};
  const Layout& layout = layout_;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"format", fmt::format("trace.dat version {}, {}", layout.version,
                             kCompressions[static_cast<std::size_t>(layout.compression)])},
      {"host", layout.uname},
      {"recorded by", layout.writer},
      {"CPUs", std::to_string(layout.cpu_count)}};
  for (const Buffer& buffer : layout.buffers) {
    facts.emplace_back("buffer", fmt::format("{}: {} CPUs with data, {}-byte pages",
                                             buffer.name.empty() ? "top" : buffer.name,
                                             buffer.cpus.size(), buffer.page_size));
  }
  if (layout.tsc2nsec) {
    facts.emplace_back(
        "TSC2NSEC", fmt::format("mult {} shift {}", layout.tsc2nsec->mult, layout.tsc2nsec->shift));
  }
  if (layout.time_shift) facts.emplace_back("time shift", "to the clock of its host's recording");
  if (!layout.unknown_options.empty()) {
    std::vector<std::uint16_t> ids;
    for (const auto& [id, times] : layout.unknown_options) ids.push_back(id);
    facts.emplace_back("not read", fmt::format("options {}, of a newer trace-cmd than this knows",
                                               fmt::join(ids, ", ")));
  }
  if (layout.cut) facts.emplace_back("cut off", *layout.cut);
  if (layout.offset_ns != 0) facts.emplace_back("offset", fmt::format("{} ns", layout.offset_ns));
  std::ranges::move(KernelEventSource::facts(), std::back_inserter(facts));
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

std::string TraceDatSource::kallsyms() const {
  return read_text_section(file_, layout_, layout_.kallsyms, sizeof(std::uint32_t)).value_or("");
}

std::string TraceDatSource::kernel_function(std::uint64_t address) const {
  if (!symbols_) symbols_.emplace(kallsyms());
  return std::string(symbols_->function_at(address));
}

Result<std::unique_ptr<TraceDatSource>> open_trace_dat(File file,
                                                       std::optional<std::uint64_t> tsc_khz,
                                                       bool marker_calls,
                                                       std::vector<ChangedTime> changes) {
  auto layout = read_layout(file);
  if (!layout) return tl::unexpected(std::move(layout).error());
  if (!any_data(*layout)) return no_events(file, *layout);
  SourceInfo info{file.path(), "trace.dat", layout->clock, false};
  auto scale = scale_of(file, *layout, tsc_khz, info.cycles);
  if (!scale) return tl::unexpected(std::move(scale).error());
  auto formats = read_formats(file, *layout);
  if (!formats) return tl::unexpected(std::move(formats).error());
  auto capabilities = sample_capabilities(file, *layout, *formats);
  if (!capabilities) return tl::unexpected(std::move(capabilities).error());
  auto recording = std::make_shared<const TraceFile>(TraceFile{std::move(file), std::move(*layout),
                                                               std::move(*formats), std::move(info),
                                                               *scale, marker_calls});
  if (changes.empty()) return std::make_unique<TraceDatSource>(std::move(recording), *capabilities);
  return std::make_unique<ChangedSource>(std::move(recording), *capabilities, std::move(changes));
}

}  // namespace trapline::trace_dat
