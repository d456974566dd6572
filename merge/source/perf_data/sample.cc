#include "merge/source/perf_data/sample.h"

#include <bit>

namespace trapline::perf_data {
namespace {

constexpr std::uint64_t kReadEnabled = 1, kReadRunning = 2, kReadId = 4, kReadGroup = 8,
                        kReadLost = 16;
constexpr std::uint32_t kTracepoint = 2;

std::uint64_t count_of(std::uint64_t set, std::uint64_t bits) {
  return static_cast<std::uint64_t>(std::popcount(set & bits));
}

// Returns the size of the values that PERF_SAMPLE_READ adds; nullopt if they exceed the record.
std::optional<std::uint64_t> read_values_size(std::uint64_t format,
                                              std::span<const std::byte> rest) {
  const std::uint64_t times = count_of(format, kReadEnabled | kReadRunning);
  const std::uint64_t of_each = 1 + count_of(format, kReadId | kReadLost);
  if ((format & kReadGroup) == 0) return 8 * (times + of_each);
  if (rest.size() < 8) return std::nullopt;
  const auto events = load<std::uint64_t>(rest.data());
  if (events > rest.size() / 8) return std::nullopt;
  return 8 * (1 + times + events * of_each);
}

}  // namespace

std::optional<Attr> Attr::parse(std::span<const std::byte> bytes) {
  constexpr std::size_t kFirstVersion = 64, kClockAt = 92;
  constexpr std::uint64_t kFrequency = 1u << 10, kSampleIdAll = 1u << 18, kUseClock = 1u << 25,
                          kBackward = 1u << 27;
  if (bytes.size() < kFirstVersion) return std::nullopt;
  const auto u64 = [&](std::size_t at) { return load<std::uint64_t>(bytes.data() + at); };
  Attr attr;
  attr.tracepoint = load<std::uint32_t>(bytes.data()) == kTracepoint;
  const std::uint64_t flags = u64(40);
  attr.period = u64(16);
  attr.sample_type = u64(24);
  attr.read_format = u64(32);
  attr.frequency = (flags & kFrequency) != 0;
  attr.sample_id_all = (flags & kSampleIdAll) != 0;
  attr.backward = (flags & kBackward) != 0;
  if ((flags & kUseClock) != 0 && bytes.size() >= kClockAt + 4)
    attr.clock = static_cast<std::int32_t>(load<std::uint32_t>(bytes.data() + kClockAt));
  return attr;
}

RecordShape::RecordShape(std::uint64_t sample_type, std::uint64_t read_format)
    : sample_type_(sample_type),
      read_format_(read_format),
      has_place_((sample_type & kTime) != 0 && (sample_type & kCpu) != 0) {
  const auto before = [&](std::uint64_t bits) {
    return static_cast<std::uint32_t>(8 * count_of(sample_type, bits));
  };
  time_ = kRecordHeader + before(kIdentifier | kIp | kTid);
  cpu_ = time_ + before(kTime | kAddr | kId | kStreamId);
  rest_ = cpu_ + before(kCpu | kPeriod);
  trailer_ = before(kTid | kTime | kId | kStreamId | kCpu | kIdentifier);
  trailer_time_ = before(kTid);
  trailer_cpu_ = before(kTid | kTime | kId | kStreamId);
}

bool RecordShape::skip_values(std::span<const std::byte> record, std::uint64_t& at) const {
  if ((sample_type_ & kRead) != 0) {
    const auto size = read_values_size(read_format_, record.subspan(at));
    if (!size || *size > record.size() - at) return false;
    at += *size;
  }
  if ((sample_type_ & kCallchain) != 0) {
    if (record.size() - at < 8) return false;
    const auto frames = load<std::uint64_t>(record.data() + at);
    at += 8;
    if (frames > (record.size() - at) / 8) return false;
    at += 8 * frames;
  }
  return true;
}

std::optional<Sample> RecordShape::trailer(std::span<const std::byte> record) const {
  if (!has_place_ || record.size() < kRecordHeader + trailer_) return std::nullopt;
  const std::byte* at = record.data() + record.size() - trailer_;
  return Sample{
      load<std::uint64_t>(at + trailer_time_), load<std::uint32_t>(at + trailer_cpu_), {}};
}

std::optional<std::uint64_t> RecordShape::id(std::span<const std::byte> record,
                                             bool is_sample) const {
  std::size_t at = kRecordHeader;
  if ((sample_type_ & kIdentifier) != 0) {
    if (!is_sample) at = record.size() - 8;
  } else if ((sample_type_ & kId) == 0) {
    return std::nullopt;
  } else if (is_sample) {
    at += 8 * count_of(sample_type_, kIp | kTid | kTime | kAddr);
  } else {
    if (record.size() < kRecordHeader + trailer_) return std::nullopt;
    at = record.size() - trailer_ + 8 * count_of(sample_type_, kTid | kTime);
  }
  if (record.size() < kRecordHeader + 8 || at > record.size() - 8) return std::nullopt;
  return load<std::uint64_t>(record.data() + at);
}

}  // namespace trapline::perf_data
