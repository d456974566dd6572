#include "merge/record/page_streams.h"

namespace trapline::record {
namespace {

std::string stats_of(const Instance& instance, unsigned cpu) {
  return instance.get(fmt::format("per_cpu/cpu{}/stats", cpu)).value_or("");
}

}  // namespace

Result<PageStreams> PageStreams::open(const Instance& instance, const std::string& raw,
                                      unsigned cpus, std::size_t page_size) {
  auto pipe = PagePipe::open();
  if (!pipe) return tl::unexpected(std::move(pipe).error());
  PageStreams streams(std::move(*pipe), page_size);
  for (unsigned cpu = 0; cpu < cpus; ++cpu) {
    auto stream = PageStream::open(instance.path(fmt::format("per_cpu/cpu{}/trace_pipe_raw", cpu)),
                                   fmt::format("{}cpu{}", raw, cpu), cpu, page_size);
    if (!stream) return tl::unexpected(std::move(stream).error());
    streams.streams_.push_back(std::move(*stream));
  }
  return streams;
}

Result<void> PageStreams::drain(std::size_t cpu) {
  auto more = streams_[cpu].drain(pipe_);
  if (!more) return tl::unexpected(std::move(more).error());
  return {};
}

Result<void> PageStreams::flush() {
  for (PageStream& stream : streams_) {
    if (auto flushed = stream.flush(pipe_, false); !flushed) return flushed;
  }
  return {};
}

Result<void> PageStreams::finish() {
  for (PageStream& stream : streams_) {
    if (auto flushed = stream.flush(pipe_, true); !flushed) return flushed;
  }
  return {};
}

std::vector<CpuLoss> PageStreams::losses(const Instance& instance) const {
  std::vector<CpuLoss> losses;
  for (const PageStream& stream : streams_) {
    CpuLoss loss = read_loss(stream.cpu(), stats_of(instance, stream.cpu()));
    loss.unwritten_pages = stream.unwritten() / page_size_;
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

std::uint64_t PageStreams::written() const {
  std::uint64_t bytes = 0;
  for (const PageStream& stream : streams_) bytes += stream.written();
  return bytes;
}

void PageStreams::close() {
  for (PageStream& stream : streams_) stream.close();
}

}  // namespace trapline::record
