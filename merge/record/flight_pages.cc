#include "merge/record/flight_pages.h"

#include "merge/record/page_streams.h"

namespace trapline::record {
namespace {

constexpr unsigned kPagesPerRound = 64;      // of a CPU
constexpr unsigned kRoundsForAll = 100'000;  // 25 GiB of pages of 4 KiB: more than any buffer has
constexpr std::size_t kFinderBytes = 4u << 20;  // pages that wait for those of other CPUs

}  // namespace

Result<FlightPages> FlightPages::open(const Instance& instance, const FlightRingOptions& options) {
  FlightPages pages(options);
  for (unsigned cpu = 0; cpu < options.cpus; ++cpu) {
    auto stream = PageStream::open(instance.path(fmt::format("per_cpu/cpu{}/trace_pipe_raw", cpu)),
                                   nullptr, cpu, options.page_size);
    if (!stream) return tl::unexpected(std::move(stream).error());
    pages.streams_.push_back(std::move(*stream));
  }
  return pages;
}

void FlightPages::look_for(TriggerMatcher trigger) {
  const SnapshotOptions options{0, kFinderBytes, page_size_,
                                static_cast<unsigned>(streams_.size())};
  finder_ = std::make_unique<Snapshot>(
      options, std::move(trigger), is_alive,
      [](unsigned, std::span<const std::byte>) { return Result<void>{}; });
}

// A few pages of every CPU.
Result<bool> FlightPages::round() {
  alignas(8) std::byte buffer[kLargestPage];
  const std::span<std::byte> page(buffer, page_size_);
  const unsigned most = finder_ ? finder_->pages_per_round() : kPagesPerRound;
  bool all = true;
  if (finder_) finder_->begin_round();
  for (unsigned cpu = 0; cpu < streams_.size(); ++cpu) {
    bool more = true;
    for (unsigned pages = 0; pages < most; ++pages) {
      const auto got = streams_[cpu].read_page(page);
      if (!got) return tl::unexpected(got.error());
      more = *got;
      if (!more) break;
      if (auto added = ring_.add(cpu, page); !added) return tl::unexpected(added.error());
      if (!finder_) continue;
      if (auto added = finder_->add(cpu, page); !added) return tl::unexpected(added.error());
    }
    if (!more && finder_) finder_->drained(cpu);
    all &= !more;
  }
  if (finder_) {
    if (auto ended = finder_->end_round(); !ended) return tl::unexpected(ended.error());
  }
  return all;
}

Result<bool> FlightPages::read() {
  for (unsigned rounds = 0; rounds < kRoundsAtOnce; ++rounds) {
    auto all = round();
    if (!all || *all) return all;
  }
  return false;
}

// Once every CPU was found empty, all that was made before this call has been read. What is newest
// then is complete when every CPU was found empty again: later events of another may be older.
Result<std::uint64_t> FlightPages::read_all() {
  std::uint64_t complete = 0;
  bool drained = false;
  for (unsigned rounds = 0; rounds < kRoundsForAll; ++rounds) {
    const std::uint64_t before = ring_.newest();
    const auto all = round();
    if (!all) return tl::unexpected(all.error());
    complete = before;
    if (*all && drained) break;
    drained |= *all;
  }
  return complete;
}

void FlightPages::close() {
  for (PageStream& stream : streams_) stream.close();
}

}  // namespace trapline::record
