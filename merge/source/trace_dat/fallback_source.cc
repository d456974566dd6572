#include "merge/source/trace_dat/fallback_source.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "merge/source/trace_dat/layout_reader.h"
#include "merge/source/trace_dat/sample.h"
#include "merge/source/trace_dat/tracecmd_reader.h"

namespace trapline::trace_dat {
namespace {

constexpr std::size_t kPipeBuffer = 64u << 10;
constexpr std::uint32_t kLargestRecord = 1u << 20;
constexpr std::uint32_t kMostStreams = 1u << 20;

// A damaged file may make libtracecmd loop or allocate without end: the child gets what a sound
// file of this size needs, several times over (libtracecmd 1.3.1 reads 1 MB of zstd a second).
void limit_self(std::uint64_t file_size, bool compressed) {
  const rlim_t seconds = 3 + file_size / (compressed ? 256u << 10 : 16u << 20);
  const rlim_t bytes = (rlim_t{1} << 30) + 40 * file_size;
  const rlimit cpu{seconds, seconds};
  [[maybe_unused]] const rlimit memory{bytes, bytes};
  (void)::setrlimit(RLIMIT_CPU, &cpu);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadow takes terabytes
  (void)::setrlimit(RLIMIT_AS, &memory);
#endif
}

Result<Child> start_child(const File& file, bool compressed) {
  const char* path = file.path().c_str();
  auto child = Child::start([&file, path, compressed](UniqueFd& output) {
    limit_self(file.size(), compressed);
    return trapline_stream_records(path, output.release()) == 0 ? 0 : 1;
  });
  if (!child) return fail("{}: {}", path, child.error().message);
  return child;
}

}  // namespace

Result<std::unique_ptr<TraceDatSource>> FallbackSource::open(TraceFile recording) {
  Capabilities capabilities = capabilities_by_format(recording.formats);
  if (recording.layout.order == std::endian::little) {
    if (auto sampled = sample_capabilities(recording.file, recording.layout, recording.formats)) {
      capabilities = *sampled;
    }
  }
  const std::string& compression = recording.layout.compression;
  auto child = start_child(recording.file, !compression.empty() && compression != "none");
  if (!child) return tl::unexpected(std::move(child).error());
  return std::unique_ptr<TraceDatSource>(
      new FallbackSource(std::move(recording), capabilities, std::move(*child)));
}

bool FallbackSource::fill(std::byte* into, std::size_t size) {
  while (size > 0) {
    if (buffer_at_ == buffer_.size()) {
      buffer_.resize(kPipeBuffer);
      buffer_at_ = 0;
      ssize_t got;
      do {
        got = ::read(child_.output().get(), buffer_.data(), buffer_.size());
      } while (got < 0 && errno == EINTR);
      buffer_.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
      if (got <= 0) return false;
    }
    const std::size_t part = std::min(size, buffer_.size() - buffer_at_);
    std::memcpy(into, buffer_.data() + buffer_at_, part);
    buffer_at_ += part;
    into += part;
    size -= part;
  }
  return true;
}

bool FallbackSource::read_next() {
  trapline_record head;
  if (!fill(reinterpret_cast<std::byte*>(&head), sizeof head)) return false;
  if (head.size > kLargestRecord || head.cpu >= kMostCpus || head.stream >= kMostStreams)
    return false;
  pending_.time = head.time;
  pending_.missed = head.missed;
  pending_.cpu = head.cpu;
  pending_.stream = head.stream;
  pending_.data.resize(head.size);
  return fill(pending_.data.data(), head.size);
}

void FallbackSource::finish() {
  ended_ = true;
  child_.output().reset();  // a child that still writes (an impossible record) ends by it
  const int status = child_.wait();
  if (status == 0) return;
  status_ = fail(ErrorKind::kDamaged, "{}: damaged: libtracecmd {} while reading it",
                 recording_.file.path(), status > 128 ? "crashed" : "failed");
}

Read FallbackSource::next(Event& event) {
  if (!status_ || ended_) return Read::kEnd;
  if (!has_pending_) {
    if (!read_next()) {
      finish();
      return Read::kEnd;
    }
    has_pending_ = true;
    if (pending_.missed != 0) {
      // Only known when the record after the loss arrives: its event comes late in time.
      const Timestamp from = pending_.stream < last_time_.size() && last_time_[pending_.stream] != 0
                                 ? recording_.scale(last_time_[pending_.stream])
                                 : Timestamp(0);
      fill_lost(pending_.cpu, from, recording_.scale(pending_.time), pending_.missed, event);
      return Read::kEvent;
    }
  }
  has_pending_ = false;
  if (pending_.stream >= last_time_.size()) last_time_.resize(pending_.stream + 1u);
  last_time_[pending_.stream] = pending_.time;
  decode({pending_.time, pending_.data.data(), static_cast<std::uint32_t>(pending_.data.size())},
         pending_.cpu, event);
  return Read::kEvent;
}

}  // namespace trapline::trace_dat
