#include "merge/record/page_streams.h"

#include <sys/stat.h>
#include <unistd.h>

#include <limits>

namespace trapline::record {
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
  for (const PageStream& stream : streams_) {
    stats.push_back(fmt::format("CPU: {}\n{}", stream.cpu(), stats_of(instance, stream.cpu())));
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
