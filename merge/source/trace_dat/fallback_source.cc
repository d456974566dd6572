#include "merge/source/trace_dat/fallback_source.h"

#include <algorithm>

#include "merge/source/kernel_events/capability_looker.h"
#include "merge/source/trace_dat/layout_reader.h"
#include "merge/source/trace_dat/sample.h"

namespace trapline::trace_dat {
namespace {

constexpr std::uint32_t kLargestRecord = 1u << 20;
constexpr std::uint32_t kMostStreams = 1u << 20;

// A damaged file may make libtracecmd loop or allocate without end: the worker gets what a sound
// file of this size needs, several times over (libtracecmd 1.3.1 reads 1 MB of zstd a second).
WorkerLimits limits_of(std::uint64_t size, bool compressed) {
  WorkerLimits limits = WorkerLimits::for_file(size);
  if (limits.memory == 0) return limits;
  limits.memory += 36 * size;
  limits.life = std::chrono::seconds(3 + size / (compressed ? 256u << 10 : 16u << 20));
  limits.answer = limits.life;
  return limits;
}

Result<Worker> start_worker(const File& file, bool compressed) {
  auto worker = Worker::start("records", file.path(), limits_of(file.size(), compressed));
  if (!worker) return worker;
  if (auto sent = worker->send(MessageKind::kFile, {}, file.descriptor()); !sent)
    return tl::unexpected(std::move(sent).error());
  return worker;
}

}  // namespace

Result<std::unique_ptr<TraceDatSource>> FallbackSource::open(TraceFile recording) {
  Capabilities capabilities = capabilities_by_format(recording.formats);
  if (recording.layout.order == std::endian::little) {
    if (auto sampled = sample_capabilities(recording.file, recording.layout, recording.formats)) {
      capabilities = *sampled;
    }
  }
  const bool compressed = recording.layout.compression != Compression::kNone;
  auto worker = start_worker(recording.file, compressed);
  if (!worker) return tl::unexpected(std::move(worker).error());
  return std::unique_ptr<TraceDatSource>(
      new FallbackSource(std::move(recording), capabilities, std::move(*worker)));
}

bool FallbackSource::fail_with(Error error) {
  status_ = tl::unexpected(std::move(error));
  return false;
}

bool FallbackSource::read_next() {
  while (rows_.at_end()) {
    auto message = worker_.receive();
    if (!message) return fail_with(std::move(message).error());
    if (message->kind == MessageKind::kEnd) return false;
    if (message->kind != MessageKind::kRecords)
      return fail_with(worker_.impossible("its kind").value());
    message_ = std::move(*message);
    rows_ = MessageReader(message_.payload);
  }
  const auto time = rows_.number<std::uint64_t>();
  const auto missed = rows_.number<std::uint64_t>();
  const auto cpu = rows_.number<std::uint32_t>();
  const auto stream = rows_.number<std::uint32_t>();
  const auto data = rows_.text();
  if (!data || data->size() > kLargestRecord || *cpu >= kMostCpus || *stream >= kMostStreams)
    return fail_with(worker_.impossible("a record").value());
  pending_ = {*time, static_cast<std::int64_t>(*missed), *cpu, *stream, *data};
  return true;
}

Read FallbackSource::next(Event& event) {
  if (!status_ || ended_) return Read::kEnd;
  if (!has_pending_) {
    if (!read_next()) {
      ended_ = true;
      return Read::kEnd;
    }
    has_pending_ = true;
    if (pending_.missed != 0) {
      // Only known when the record after the loss arrives: its event comes late in time.
      const Timestamp from = pending_.stream < last_time_.size() && last_time_[pending_.stream] != 0
                                 ? scale_(last_time_[pending_.stream])
                                 : Timestamp(0);
      fill_lost(pending_.cpu, from, scale_(pending_.time), pending_.missed, event);
      return Read::kEvent;
    }
  }
  has_pending_ = false;
  if (pending_.stream >= last_time_.size()) last_time_.resize(pending_.stream + 1u);
  last_time_[pending_.stream] = pending_.time;
  decode({pending_.time, reinterpret_cast<const std::byte*>(pending_.data.data()),
          static_cast<std::uint32_t>(pending_.data.size())},
         scale_(pending_.time), pending_.cpu, event);
  return Read::kEvent;
}

}  // namespace trapline::trace_dat
