#include "merge/record/page_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "backend_ftrace/base/descriptors.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/uninterrupted.h"
#include "merge/record/page_files.h"
#include "merge/record/session.h"
#include "merge/record/snapshot/page_cut.h"

namespace trapline::record {

OtherReaders::OtherReaders(const std::string& stats)
    : stats_(::open(stats.c_str(), O_RDONLY | O_CLOEXEC)) {}

std::optional<std::uint64_t> OtherReaders::read_events() const {
  char text[1024];
  const auto size = uninterrupted([&] { return ::pread(stats_.get(), text, sizeof text, 0); });
  if (size <= 0) return std::nullopt;
  return trace_dat::stat_number({text, static_cast<std::size_t>(size)}, "read events");
}

// Where another process emptied the buffer, the count begins again: what it says then is not
// compared with what was before.
void OtherReaders::before() {
  const auto now = read_events();
  if (now && after_ && *now > *after_) events_ += *now - *after_;
}

void OtherReaders::after() { after_ = read_events(); }

namespace {

constexpr std::size_t kPiece = 256u << 10;  // a multiple of every page size

void append_stamps(std::span<const std::byte> page, std::vector<SyncStamp>& stamps) {
  trace_dat::RingPage walk;
  if (!walk.load(page, kCommitSize)) return;
  for (kernel_events::RecordedEvent event; walk.next(event);) {
    std::string_view text(reinterpret_cast<const char*>(event.data), event.size);
    const auto at = text.find(kSyncPrefix);
    if (at == std::string_view::npos) continue;
    text.remove_prefix(at);
    const auto sync = parse_sync(text.substr(0, text.find_first_of(std::string_view("\n\0", 2))));
    if (sync) stamps.push_back({sync->series, sync->index, event.time});
  }
}

bool holds_prefix(std::span<const std::byte> page) {
  return ::memmem(page.data(), page.size(), kSyncPrefix.data(), kSyncPrefix.size()) != nullptr;
}

}  // namespace

void SyncStamps::expect(const PageFiles& files, std::uint64_t series, int first_cpu, int last_cpu) {
  last_series_ = series;
  for (const int cpu : {first_cpu, last_cpu}) {
    const auto index = static_cast<unsigned>(cpu);
    // What an earlier series waits for comes before.
    if (cpu >= 0 && index < files.cpus()) places_.try_emplace(index, files.written(index));
  }
}

std::vector<SyncStamp> SyncStamps::find(const PageFiles& files) {
  std::vector<SyncStamp> stamps;
  std::vector<std::byte> buffer(places_.empty() ? 0 : kPiece);
  const std::size_t page_size = files.page_size();
  for (auto& [cpu, from] : places_) {
    const std::uint64_t end = std::min(files.written(cpu), from + kMostAtOnce);
    while (from < end) {
      const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(end - from, kPiece));
      if (!files.read(cpu, from, std::span(buffer).first(wanted))) break;
      for (std::size_t at = 0; at + page_size <= wanted; at += page_size) {
        const auto page = std::span<const std::byte>(buffer).subspan(at, page_size);
        if (holds_prefix(page)) append_stamps(page, stamps);
      }
      from += wanted;
    }
  }
  // The last record of a series has the last index.
  const auto is_last = [this](const SyncStamp& stamp) {
    return stamp.series == last_series_ && stamp.index == kSyncTries;
  };
  if (std::any_of(stamps.begin(), stamps.end(), is_last)) places_.clear();
  return stamps;
}

void allow_streams(std::size_t cpus) {
  constexpr std::size_t kOthers = 256;
  allow_open_files(3 * cpus + kOthers);
}

Result<PagePipe> PagePipe::open() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return fail("pipe: {}", std::strerror(errno));
  PagePipe pipe;
  pipe.out_.reset(ends[0]);
  pipe.in_.reset(ends[1]);
  // 256 pages at once where the limit for pipes allows it; any size works.
  (void)::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
  const int size = ::fcntl(ends[1], F_GETPIPE_SZ);
  pipe.size_ = size > 0 ? static_cast<std::size_t>(size) : 65536;
  return pipe;
}

Result<PageStream> PageStream::open(const std::string& source, PageFiles* files, unsigned cpu,
                                    std::size_t page_size) {
  if (page_size > kLargestPage) {
    return fail("{}: pages of {} bytes; at most {} can be recorded: write buffer_subbuf_size_kb",
                source, page_size, kLargestPage);
  }
  PageStream stream;
  stream.source_.reset(::open(source.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!stream.source_ && errno == EMFILE) {
    return fail("{}: {}; {}", source, std::strerror(errno), kMoreFiles);
  }
  if (!stream.source_) return fail("{}: {}", source, std::strerror(errno));
  stream.files_ = files;
  stream.source_path_ = source;
  stream.cpu_ = cpu;
  stream.page_size_ = page_size;
  return stream;
}

Result<void> PageStream::empty_pipe(const PagePipe& pipe, std::size_t bytes) {
  while (bytes > 0) {
    const auto place = files_->place(cpu_);
    if (!place) {
      unwritten_ += bytes;
      return tl::unexpected(place.error());
    }
    auto to = static_cast<off_t>(place->offset);
    const ssize_t moved = ::splice(pipe.out(), nullptr, place->fd, &to,
                                   std::min<std::uint64_t>(bytes, place->room), SPLICE_F_MOVE);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) {
      const int cause = moved < 0 ? errno : ENOSPC;
      unwritten_ += bytes + files_->cut(cpu_);
      return fail("{}: {}", files_->path_of(cpu_), why_not_written(cause));
    }
    files_->wrote(cpu_, static_cast<std::uint64_t>(moved));
    bytes -= static_cast<std::size_t>(moved);
  }
  return {};
}

Result<bool> PageStream::drain(const PagePipe& pipe) {
  for (unsigned round = 0; round < kMostRounds; ++round) {
    const ssize_t size = ::splice(source_.get(), nullptr, pipe.in(), nullptr, pipe.size(),
                                  SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (size < 0 && errno == EINTR) continue;
    if (size == 0 || (size < 0 && errno == EAGAIN)) return false;
    if (size < 0) return fail("{}: {}", source_path_, std::strerror(errno));
    if (auto moved = empty_pipe(pipe, static_cast<std::size_t>(size)); !moved) {
      return tl::unexpected(std::move(moved).error());
    }
  }
  return true;
}

Result<void> PageStream::flush(const PagePipe& pipe, bool all) {
  for (;;) {
    auto more = drain(pipe);
    if (!more) return tl::unexpected(std::move(more).error());
    if (!*more) break;
    if (!all) return {};
  }
  alignas(8) std::byte buffer[kLargestPage];
  const std::span<std::byte> page(buffer, page_size_);
  for (unsigned pages = 0; all || pages < 64; ++pages) {
    const auto read = read_page(page);
    if (!read) return tl::unexpected(read.error());
    if (!*read) return {};
    if (auto wrote = write_page(page); !wrote) return wrote;
  }
  return {};
}

Result<bool> PageStream::read_page(std::span<std::byte> page) {
  const ssize_t size =
      uninterrupted([&] { return ::read(source_.get(), page.data(), page.size()); });
  if (size == 0 || (size < 0 && errno == EAGAIN)) return false;
  if (size < 0) return fail("{}: {}", source_path_, std::strerror(errno));
  // A short read leaves out the page's unused end.
  const auto unused = page.subspan(static_cast<std::size_t>(size));
  std::fill(unused.begin(), unused.end(), std::byte{0});
  return true;
}

Result<void> PageStream::write_page(std::span<const std::byte> page) {
  auto wrote = files_->write(cpu_, page);
  if (!wrote) unwritten_ += page.size();
  return wrote;
}

namespace {

std::string stats_of(const Instance& instance, unsigned cpu) {
  return instance.control().get(fmt::format("per_cpu/cpu{}/stats", cpu)).value_or("");
}

}  // namespace

std::optional<bool> is_alive(ThreadId thread) {
  constexpr ino_t kFirstNamespace = 0xeffffffc;  // PROC_PID_INIT_INO
  static const bool can_know = [] {
    struct stat status {};
    return ::stat("/proc/self/ns/pid", &status) == 0 && status.st_ino == kFirstNamespace;
  }();
  if (!can_know) return std::nullopt;
  return ::access(fmt::format("/proc/{}", static_cast<std::int32_t>(thread)).c_str(), F_OK) == 0;
}

Result<PageStreams> PageStreams::open(const Instance& instance, PageFiles files) {
  auto pipe = PagePipe::open();
  if (!pipe) return tl::unexpected(std::move(pipe).error());
  PageStreams streams(std::move(*pipe), std::move(files));
  for (unsigned cpu = 0; cpu < streams.files_->cpus(); ++cpu) {
    auto stream = PageStream::open(instance.path(fmt::format("per_cpu/cpu{}/trace_pipe_raw", cpu)),
                                   streams.files_.get(), cpu, streams.page_size_);
    if (!stream) return tl::unexpected(std::move(stream).error());
    streams.streams_.push_back(std::move(*stream));
    streams.others_.emplace_back(instance.path(fmt::format("per_cpu/cpu{}/stats", cpu)));
  }
  return streams;
}

void PageStreams::keep_hits(TriggerMatcher watch, std::uint64_t around_ns, std::size_t ring_bytes) {
  const SnapshotOptions options{around_ns, ring_bytes, page_size_,
                                static_cast<unsigned>(streams_.size())};
  // The streams are in a heap of their own: this object may move.
  PageStream* streams = streams_.data();
  snapshot_ = std::make_unique<Snapshot>(options, std::move(watch), is_alive,
                                         [streams](unsigned cpu, std::span<const std::byte> page) {
                                           return streams[cpu].write_page(page);
                                         });
}

// A few pages of every CPU: what is complete up to a time takes all of them.
Result<bool> PageStreams::watch_round() {
  alignas(8) std::byte buffer[kLargestPage];
  const std::span<std::byte> page(buffer, page_size_);
  bool all_drained = true;
  snapshot_->begin_round();
  for (unsigned cpu = 0; cpu < streams_.size(); ++cpu) {
    bool more = true;
    for (unsigned pages = 0; more && pages < snapshot_->pages_per_round(); ++pages) {
      const auto got = streams_[cpu].read_page(page);
      if (!got) return tl::unexpected(got.error());
      more = *got;
      if (!more) break;
      read_ += page_size_;
      if (auto added = snapshot_->add(cpu, page); !added) return tl::unexpected(added.error());
    }
    if (!more) snapshot_->drained(cpu);
    all_drained &= !more;
  }
  if (auto ended = snapshot_->end_round(); !ended) return tl::unexpected(ended.error());
  return all_drained;
}

Result<void> PageStreams::watch_rounds(unsigned rounds) {
  for (unsigned round = 0; round < rounds; ++round) {
    const auto drained = watch_round();
    if (!drained) return tl::unexpected(drained.error());
    if (*drained) break;
  }
  return {};
}

Result<void> PageStreams::watch(unsigned rounds) {
  for (OtherReaders& others : others_) others.before();
  auto watched = watch_rounds(rounds);
  for (OtherReaders& others : others_) others.after();
  return watched;
}

Result<void> PageStreams::drain(std::size_t cpu) {
  if (snapshot_) return watch(kRoundsAtOnce);
  others_[cpu].before();
  auto more = streams_[cpu].drain(pipe_);
  others_[cpu].after();
  if (!more) return tl::unexpected(std::move(more).error());
  return {};
}

Result<void> PageStreams::flush(std::size_t cpu, bool all) {
  others_[cpu].before();
  auto flushed = streams_[cpu].flush(pipe_, all);
  others_[cpu].after();
  return flushed;
}

Result<void> PageStreams::flush() {
  if (snapshot_) return watch(kRoundsAtOnce);
  for (std::size_t cpu = 0; cpu < streams_.size(); ++cpu) {
    if (auto flushed = flush(cpu, false); !flushed) return flushed;
  }
  return {};
}

Result<void> PageStreams::finish() {
  if (snapshot_) {
    if (auto watched = watch(std::numeric_limits<unsigned>::max()); !watched) return watched;
    return snapshot_->finish();
  }
  for (std::size_t cpu = 0; cpu < streams_.size(); ++cpu) {
    if (auto flushed = flush(cpu, true); !flushed) return flushed;
  }
  return {};
}

void PageStreams::settle() {
  if (snapshot_) (void)snapshot_->finish();
}

std::uint64_t PageStreams::keep_only(const std::vector<std::uint64_t>& durable) {
  std::uint64_t all = 0;
  for (unsigned cpu = 0; cpu < streams_.size(); ++cpu) {
    const std::uint64_t dropped = files_->cut(cpu, cpu < durable.size() ? durable[cpu] : 0);
    not_durable_[cpu] += dropped;
    all += dropped;
  }
  return all;
}

std::vector<CpuLoss> PageStreams::losses(const Instance& instance) const {
  std::vector<CpuLoss> losses;
  for (const PageStream& stream : streams_) {
    CpuLoss loss = read_loss(stream.cpu(), stats_of(instance, stream.cpu()));
    loss.unwritten_pages =
        snapshot_ ? snapshot_->unwritten_pages(stream.cpu()) : stream.unwritten() / page_size_;
    const auto dropped = not_durable_.find(stream.cpu());
    if (dropped != not_durable_.end()) loss.unwritten_pages += dropped->second / page_size_;
    loss.read_by_others = others_[stream.cpu()].events();
    losses.push_back(loss);
  }
  return losses;
}

std::vector<std::string> PageStreams::stats(const Instance& instance) const {
  std::vector<std::string> stats;
  for (const CpuLoss& loss : losses(instance)) {
    std::string& text =
        stats.emplace_back(fmt::format("CPU: {}\n{}", loss.cpu, stats_of(instance, loss.cpu)));
    for (const auto& [key, count] : {std::pair(trace_dat::kPagesUnwritten, loss.unwritten_pages),
                                     std::pair(trace_dat::kEventsUnread, loss.unread),
                                     std::pair(trace_dat::kEventsTaken, loss.read_by_others)}) {
      if (count != 0) text += fmt::format("{}: {}\n", key, count);
    }
  }
  return stats;
}

void PageStreams::close() {
  pipe_.close();
  for (PageStream& stream : streams_) stream.close();
  for (OtherReaders& others : others_) others.close();
  files_->close();
}

}  // namespace trapline::record
