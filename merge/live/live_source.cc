#include "merge/live/live_source.h"

#include <algorithm>
#include <limits>

#include "backend_ftrace/clock.h"
#include "merge/model/kernel_events.h"
#include "merge/record/session_writer.h"
#include "merge/record/setup.h"
#include "merge/source/kernel_events/capability_looker.h"

namespace trapline::live {
namespace {

// In ns: an event's stamp is taken before the event is in the buffer, by at most this much unless
// something stops its CPU.
constexpr std::uint64_t kCommitTime = 20'000'000;
constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

std::uint64_t time_before(std::uint64_t at, std::uint64_t ns) { return at > ns ? at - ns : 0; }

}  // namespace

Result<std::unique_ptr<LiveSource>> LiveSource::open(std::unique_ptr<PageFeed> feed,
                                                     std::size_t ring_bytes) {
  const trace_dat::Layout& layout = feed->layout();
  auto formats = kernel_events::Formats::parse(feed->name(), kernel_events::FormatTexts(layout));
  if (!formats) return tl::unexpected(std::move(formats).error());
  // Events whose format cannot be read would be missing from every frame.
  if (const auto& read = formats->texts().status(); !read) return tl::unexpected(read.error());
  SourceInfo info;
  info.path = feed->name();
  info.kind = "live";
  info.clock = layout.clock;
  info.cycles = record::counts_cycles(layout.clock);
  const Capabilities has = kernel_events::capabilities_by_format(*formats);
  return std::unique_ptr<LiveSource>(
      new LiveSource(std::move(*formats), std::move(info), has, std::move(feed), ring_bytes));
}

LiveSource::LiveSource(kernel_events::Formats formats, SourceInfo info, Capabilities capabilities,
                       std::unique_ptr<PageFeed> feed, std::size_t ring_bytes)
    : KernelEventSource(std::move(formats), std::move(info), capabilities, true),
      feed_(std::move(feed)),
      ring_bytes_(ring_bytes),
      ring_(feed_->layout().cpu_count),
      drained_(ring_.cpus()),
      buffer_(feed_->layout().page_size) {
  const std::size_t of_all = std::max<std::size_t>(ring_.cpus(), 1) * feed_->layout().page_size;
  pages_ahead_ = std::clamp<std::size_t>(ring_bytes / 4 / of_all, kLeastAhead, kMostAhead);
}

// Leaves out kvm_exit if none came beside exits to user space: some KVMs never write it.
Capabilities LiveSource::capabilities() const {
  Capabilities has = capabilities_;
  const auto came = [this](const KernelEvent& event) {
    const int type = formats_.type(event);
    return type >= 0 && count_of(static_cast<std::size_t>(type)) != 0;
  };
  if (came(events::kvm_userspace_exit) && !came(events::kvm_exit)) has.kvm_exit = false;
  return has;
}

std::string LiveSource::name_of(ThreadId thread) const {
  std::string name = feed_->comm(ThreadId{tid_of(thread)});
  return name.empty() ? KernelEventSource::name_of(thread) : name;
}

std::size_t LiveSource::room(unsigned cpu) const {
  const std::size_t ahead = ring_.ahead(cpu);
  return ahead < pages_ahead_ ? pages_ahead_ - ahead : 0;
}

Result<void> LiveSource::page(unsigned cpu, std::span<const std::byte> page) {
  const auto facts = ring_.add(cpu, page);
  if (!facts) return fail(ErrorKind::kDamaged, "{}: {}", feed_->name(), facts.error().message);
  return {};
}

void LiveSource::drained(unsigned cpu) {
  drained_[cpu] = true;
  ring_.set_complete(cpu, drained_to_);
}

Result<bool> LiveSource::fetch() {
  if (ended_) return false;
  // The time up to which every CPU without more pages is complete.
  std::uint64_t before = ring_.newest();
  if (const auto clock = clock_from_name(info_.clock); clock && is_readable(*clock)) {
    if (!info_.cycles) before = std::max(before, time_before(read_clock(*clock), kCommitTime));
  }
  drained_to_ = time_before(before, feed_->latency_ns());
  const auto goes_on = feed_->begin_round();
  if (!goes_on) return tl::unexpected(goes_on.error());
  drained_.assign(drained_.size(), false);
  record::PageSink* const sink = this;
  const auto drained = record::page_round(
      {&sink, 1}, ring_.cpus(), buffer_,
      [this](unsigned cpu, std::span<std::byte> page) { return feed_->next(cpu, page); });
  if (!drained) return drained;
  std::uint64_t full_to = kNoEnd;
  for (unsigned cpu = 0; cpu < ring_.cpus(); ++cpu)
    if (!drained_[cpu]) full_to = std::min(full_to, ring_.complete(cpu));
  ended_ = !*goes_on && *drained;
  complete_ = ended_ ? kNoEnd : std::max(complete_, ring_.complete());
  // A CPU with as many unread pages as are fetched ahead must be read, although the other CPUs may
  // still get earlier events.
  if (!*drained && !ring_.has_next(complete_, wants())) complete_ = std::max(complete_, full_to);
  ring_.shrink(ring_bytes_, record::PageRing::Which::kWalked);
  return !*drained;
}

Timestamp LiveSource::complete() const { return ended_ ? Timestamp(kNoEnd) : Timestamp(complete_); }

Read LiveSource::take(Event& event) {
  if (!ring_.next(complete_, wants())) return ended_ ? Read::kEnd : Read::kPending;
  const record::PageRing::Item& item = ring_.item();
  const Timestamp at(item.event.time);
  if (item.event.data == nullptr) {
    fill_lost(item.cpu, at, Timestamp(item.lost_to), item.lost, event);
  } else {
    decode(item.event, at, item.cpu, event);
  }
  return Read::kEvent;
}

namespace {

SessionJson session_of(PageFeed& feed, const std::string& version, std::uint64_t ns) {
  SessionJson session = record::new_session(version, feed.layout().clock);
  session.end_real_ns = read_clock(ClockId::kReal);
  session.start_real_ns = session.end_real_ns - std::min(session.end_real_ns, ns);
  session.ended_by = "top";
  for (const kernel_events::EventFormat& format : feed.layout().formats) {
    if (format.system != "ftrace") session.events.push_back(format.name());
  }
  for (const auto& [process, name] : feed.threads().vm_names)
    if (!name.empty()) session.vms.push_back({tid_of(process), name});
  for (const auto& [thread, process] : feed.threads().processes) {
    session.threads.push_back(
        {tid_of(thread), tid_of(process), feed.comm(ThreadId{tid_of(thread)})});
  }
  return session;
}

}  // namespace

Result<Saved> save_session(const LiveSource& source, PageFeed& feed, Timestamp from, Timestamp to,
                           const std::string& path, const std::string& version) {
  from = std::max(from, Timestamp(source.ring().kept_from()));
  if (source.ring().newest() == 0) return fail("{}: no events are in memory yet", path);
  auto head = feed.head();
  if (!head) return tl::unexpected(std::move(head).error());
  SessionJson session = session_of(feed, version, elapsed(from, to));
  auto writer = record::SessionWriter::make(make_session(path), session);
  if (!writer) return tl::unexpected(std::move(writer).error());
  trace_dat::StartFacts facts = feed.start_facts();
  facts.version = "trapline " + version;
  return writer
      ->keep_ring(writer->open_files(*head, std::move(facts)), source.ring(), from.ns(), to.ns(),
                  session, feed.cmdlines())
      .map([&](std::uint64_t events) {
        return Saved{from, to, events};
      });
}

}  // namespace trapline::live
