#include "merge/live/live_source.h"

#include <algorithm>
#include <limits>

#include "backend_ftrace/clock.h"
#include "merge/model/kernel_events.h"
#include "merge/record/page_files.h"
#include "merge/record/session.h"
#include "merge/record/snapshot/page_cut.h"
#include "merge/session/finish.h"
#include "merge/source/kernel_events/capability_looker.h"

namespace trapline::live {
namespace {

using trace_dat::RingPage;

// An event's stamp is taken before it is in the buffer: by so much, where nothing stops its CPU.
constexpr std::uint64_t kCommitTime = 20'000'000;
constexpr std::uint64_t kNoEnd = std::numeric_limits<std::uint64_t>::max();

std::uint64_t time_before(std::uint64_t at, std::uint64_t ns) { return at > ns ? at - ns : 0; }

}  // namespace

Result<std::unique_ptr<LiveSource>> LiveSource::open(std::unique_ptr<PageFeed> feed,
                                                     std::size_t ring_bytes) {
  const trace_dat::Layout& layout = feed->layout();
  auto formats = kernel_events::Formats::parse(feed->name(), kernel_events::FormatTexts(layout));
  SourceInfo info;
  info.path = feed->name();
  info.kind = "live";
  info.clock = layout.clock;
  info.cycles = layout.clock == "x86-tsc" || layout.clock == "counter";
  const Capabilities has = kernel_events::capabilities_by_format(formats);
  return std::unique_ptr<LiveSource>(
      new LiveSource(std::move(formats), std::move(info), has, std::move(feed), ring_bytes));
}

LiveSource::LiveSource(kernel_events::Formats formats, SourceInfo info, Capabilities capabilities,
                       std::unique_ptr<PageFeed> feed, std::size_t ring_bytes)
    : KernelEventSource(std::move(formats), std::move(info), capabilities, true),
      feed_(std::move(feed)),
      ring_bytes_(ring_bytes),
      cpus_(feed_->cpus()),
      buffer_(feed_->page_size()) {
  const std::size_t of_all = std::max<std::size_t>(cpus_.size(), 1) * feed_->page_size();
  pages_ahead_ = std::clamp<std::size_t>(ring_bytes / 4 / of_all, kLeastAhead, kMostAhead);
}

// A kvm_exit that never comes though it is recorded: some KVMs have only the exits to user space.
Capabilities LiveSource::capabilities() const {
  Capabilities has = capabilities_;
  const auto came = [this](const KernelEvent& event) {
    const int type = formats_.type(event);
    return type >= 0 && count_of(static_cast<std::size_t>(type)) != 0;
  };
  if (came(events::kvm_userspace_exit) && !came(events::kvm_exit)) has.kvm_exit = false;
  return has;
}

std::string LiveSource::comm(ThreadId thread) const {
  std::string name = feed_->comm(thread);
  return name.empty() ? KernelEventSource::comm(thread) : name;
}

Result<bool> LiveSource::fetch_cpu(std::size_t index) {
  Cpu& cpu = cpus_[index];
  // What is not read yet waits in the kernel, or on disk.
  while (cpu.pages.size() - cpu.next_page < pages_ahead_) {
    const auto got = feed_->next(index, buffer_);
    if (!got) return tl::unexpected(got.error());
    if (!*got) return false;
    const auto facts = record::look_at_page(buffer_);
    if (!facts) {
      return fail(ErrorKind::kDamaged, "{}: CPU {}: this is not a ring-buffer page", feed_->name(),
                  index);
    }
    // The mark of a page without events is on the next one too.
    if (facts->events == 0) continue;
    held_ += facts->used + sizeof(record::HeldPage);
    newest_ = std::max(newest_, facts->last);
    cpu.complete = std::max(cpu.complete, facts->last);
    cpu.pages.emplace_back(buffer_, *facts);
  }
  return true;
}

Result<bool> LiveSource::fetch() {
  if (ended_) return false;
  // What every CPU that has no more pages is complete to.
  std::uint64_t before = newest_;
  if (const auto clock = clock_from_name(info_.clock); clock && is_readable(*clock)) {
    if (!info_.cycles) before = std::max(before, time_before(read_clock(*clock), kCommitTime));
  }
  const std::uint64_t drained_to = time_before(before, feed_->latency_ns());
  const auto goes_on = feed_->begin_round();
  if (!goes_on) return tl::unexpected(goes_on.error());
  bool more = false;
  std::uint64_t complete = kNoEnd, full_to = kNoEnd;
  for (std::size_t i = 0; i < cpus_.size(); ++i) {
    const auto more_of_cpu = fetch_cpu(i);
    if (!more_of_cpu) return tl::unexpected(more_of_cpu.error());
    more |= *more_of_cpu;
    if (*more_of_cpu) {
      full_to = std::min(full_to, cpus_[i].complete);
    } else {
      cpus_[i].complete = std::max(cpus_[i].complete, drained_to);
    }
    complete = std::min(complete, cpus_[i].complete);
  }
  ended_ = !*goes_on && !more;
  complete_ = ended_ ? kNoEnd : std::max(complete_, complete);
  for (std::size_t i = 0; i < cpus_.size(); ++i) {
    if (cpus_[i].in_heap || i == current_ || !to_next(i)) continue;
    cpus_[i].in_heap = true;
    heap_.push(i, cpus_[i].next.time);
  }
  // A CPU that has as many pages ahead as it may have has to be read, whatever the others may
  // bring.
  if (more && (heap_.empty() || heap_.top_time() > complete_)) {
    complete_ = std::max(complete_, full_to);
  }
  make_room();
  return more;
}

Timestamp LiveSource::complete() const { return ended_ ? Timestamp(kNoEnd) : Timestamp(complete_); }

void LiveSource::drop_oldest(std::size_t index) {
  Cpu& cpu = cpus_[index];
  const record::HeldPage& page = cpu.pages.front();
  held_ -= page.facts.used + sizeof(record::HeldPage);
  kept_from_ = std::max(kept_from_, page.facts.last + 1);
  cpu.pages.pop_front();
  --cpu.next_page;
}

// Pages that were walked go, the oldest first; not the one that is being walked.
void LiveSource::make_room() {
  while (held_ > ring_bytes_) {
    std::size_t oldest = kNone;
    for (std::size_t i = 0; i < cpus_.size(); ++i) {
      if (cpus_[i].next_page < 2) continue;
      if (oldest == kNone ||
          cpus_[i].pages.front().facts.last < cpus_[oldest].pages.front().facts.last) {
        oldest = i;
      }
    }
    if (oldest == kNone) return;
    drop_oldest(oldest);
  }
}

// Puts the CPU's next event in view, or, without data, a loss before it.
bool LiveSource::to_next(std::size_t index) {
  Cpu& cpu = cpus_[index];
  for (;;) {
    if (cpu.walk.next(cpu.next)) return true;
    if (cpu.next_page == cpu.pages.size()) return false;
    const record::HeldPage& page = cpu.pages[cpu.next_page++];
    (void)cpu.walk.load(page.span(), record::kCommitSize);  // look_at_page() has walked it
    const std::uint64_t before = std::exchange(cpu.seen, page.facts.last);
    if (page.facts.lost == RingPage::kNoneLost) continue;
    cpu.next = {before, nullptr, 0};
    cpu.lost_to = page.facts.first;
    cpu.lost = page.facts.lost;
    return true;
  }
}

// Moves past what was handed out, and takes the earliest CPU off the heap.
bool LiveSource::choose() {
  if (current_ != kNone) {
    const std::size_t before = std::exchange(current_, kNone);
    if (to_next(before)) {
      const std::uint64_t time = cpus_[before].next.time;
      if (time <= complete_ && heap_.is_before_top(before, time)) {
        current_ = before;
        return true;
      }
      cpus_[before].in_heap = true;
      heap_.push(before, time);
    }
  }
  if (heap_.empty() || heap_.top_time() > complete_) return false;
  current_ = heap_.pop();
  cpus_[current_].in_heap = false;
  return true;
}

Read LiveSource::next(Event& event) {
  while (choose()) {
    const Cpu& cpu = cpus_[current_];
    if (cpu.next.data == nullptr) {
      fill_lost(static_cast<std::uint32_t>(current_), Timestamp(cpu.next.time),
                Timestamp(cpu.lost_to), cpu.lost, event);
      return Read::kEvent;
    }
    const Timestamp at(cpu.next.time);
    if (cpu.next.size >= sizeof(std::uint16_t) && is_unwanted(cpu.next)) {
      count_unwanted(cpu.next, at);
      continue;
    }
    decode(cpu.next, at, static_cast<std::uint32_t>(current_), event);
    return Read::kEvent;
  }
  return ended_ ? Read::kEnd : Read::kPending;
}

Result<void> LiveSource::for_each_page(const PageSink& sink) const {
  for (std::size_t cpu = 0; cpu < cpus_.size(); ++cpu) {
    for (const record::HeldPage& page : cpus_[cpu].pages) {
      if (auto done = sink(cpu, page.span(), page.facts); !done) return done;
    }
  }
  return {};
}

namespace {

// The pages of each CPU, cut at the first and the last event.
Result<Saved> write_pages(const LiveSource& source, Timestamp from, Timestamp to,
                          record::PageFiles& files, const Folder& folder) {
  Saved saved{from, to, 0};
  std::vector<std::byte> out(files.page_size());
  std::vector<bool> begun(files.cpus());
  auto written = source.for_each_page([&](std::size_t cpu, std::span<const std::byte> page,
                                          const record::PageFacts& facts) -> Result<void> {
    if (facts.last < from.ns() || facts.first > to.ns()) return {};
    const record::CutPage piece = record::cut_page(page, from.ns(), to.ns(), out);
    if (piece.events == 0) return {};
    // What was lost before the first event is not of the part that is saved.
    if (begun[cpu] && piece.skipped == 0) record::mark_missed(out, piece.used, facts.lost);
    begun[cpu] = true;
    saved.events += piece.events;
    return files.write(static_cast<unsigned>(cpu), out);
  });
  if (!written) return tl::unexpected(std::move(written).error());
  if (saved.events == 0) return fail("{}: no events are in memory yet", folder.path());
  return saved;
}

record::Session session_of(PageFeed& feed, const std::string& version) {
  record::Session session;
  session.trapline_version = version;
  session.clock = feed.layout().clock;
  session.end_real_ns = read_clock(ClockId::kReal);
  session.ended_by = "top";
  for (const kernel_events::EventFormat& format : feed.layout().formats) {
    const auto at = format.text.find("name: ");
    if (at != 0 || format.system == "ftrace") continue;
    session.enabled_events.push_back(
        {format.system, format.text.substr(6, format.text.find('\n') - 6)});
  }
  for (const auto& [process, name] : feed.vm_names()) {
    if (!name.empty()) session.vms.push_back({static_cast<std::int32_t>(process), name});
  }
  return session;
}

Result<Saved> write_session(const LiveSource& source, PageFeed& feed, Timestamp from, Timestamp to,
                            const std::string& head, const Folder& folder,
                            const std::string& version) {
  record::Session session = session_of(feed, version);
  // First of all: what a kill leaves without it would be no session.
  if (auto wrote = record::write_session(folder, session); !wrote)
    return tl::unexpected(std::move(wrote).error());
  trace_dat::StartFacts facts = feed.start_facts();
  facts.version = "trapline " + version;
  auto files = record::PageFiles::open(folder, head, std::move(facts));
  if (!files) return tl::unexpected(std::move(files).error());
  (void)folder.replace("raw/cmdlines", feed.cmdlines(), 0600, Durable::kYes);
  auto saved = write_pages(source, from, to, *files, folder);
  if (!saved) return saved;
  session.start_real_ns = session.end_real_ns - std::min(session.end_real_ns, elapsed(from, to));
  for (const auto& [thread, process] : feed.threads()) {
    session.seen_threads[static_cast<pid_t>(thread)] = {static_cast<pid_t>(process),
                                                        feed.comm(thread)};
  }
  files->close();
  Result<void> done = finish_locked(folder, {});
  session.closed = done.has_value();
  if (done) done = record::write_session(folder, session);
  if (!done) return tl::unexpected(std::move(done).error());
  return saved;
}

}  // namespace

Result<Saved> save_session(const LiveSource& source, PageFeed& feed, Timestamp from, Timestamp to,
                           const std::string& path, const std::string& version) {
  from = std::max(from, source.kept_from());
  auto head = feed.head();
  if (!head) return tl::unexpected(std::move(head).error());
  auto made = make_session(path);
  if (!made) return tl::unexpected(std::move(made).error());
  auto saved = write_session(source, feed, from, to, *head, made->folder, version);
  if (!saved) {
    (void)remove_session_folder(std::move(made->folder));
    return saved;
  }
  if (auto moved = made->earlier.make_way(made->folder); !moved)
    return fail("{}; the session is {}", moved.error().message, made->folder.path());
  return saved;
}

}  // namespace trapline::live
