// Parses one record of a perf.data. The attr of its event tells which fields it has.
//
//   sample    header | id | ip | pid tid | time | addr | id | stream | cpu | period | read values |
//             call chain | raw size, raw | …
//   others    header | body | pid tid | time | id | stream | cpu | id      (sample_id_all)
//
// A field is present if its bit is set in sample_type. Source: perf_event_open(2),
// include/uapi/linux/perf_event.h; docs/formats/perf-data.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backend_ftrace/base/bytes.h"
#include "merge/model/flat_index.h"

namespace trapline::perf_data {

enum class RecordType : std::uint32_t {
  kLost = 2,
  kComm = 3,
  kThrottle = 5,
  kUnthrottle = 6,
  kFork = 7,
  kSample = 9,
  kLostSamples = 13,
  // Types that perf writes itself, not the kernel:
  kHeaderAttr = 64,
  kTracingData = 66,
  kFinishedRound = 68,
  kAuxtrace = 71,
  kHeaderFeature = 80,
  kCompressed = 81,
  kCompressed2 = 83,
};
inline constexpr std::size_t kRecordHeader = 8;  // u32 type, u16 misc, u16 size

enum SampleBit : std::uint64_t {
  kIp = 1,
  kTid = 1 << 1,
  kTime = 1 << 2,
  kAddr = 1 << 3,
  kRead = 1 << 4,
  kCallchain = 1 << 5,
  kId = 1 << 6,
  kCpu = 1 << 7,
  kPeriod = 1 << 8,
  kStreamId = 1 << 9,
  kRaw = 1 << 10,
  kIdentifier = 1 << 16,
};

// The fields of perf_event_attr that a reader of tracepoints needs.
struct Attr {
  bool tracepoint = false;
  std::uint64_t period = 1;  // with `frequency`: samples per second
  std::uint64_t sample_type = 0;
  std::uint64_t read_format = 0;
  bool frequency = false, sample_id_all = false, backward = false;
  std::optional<std::int32_t> clock;  // clockid_t chosen with -k

  // Parses a perf_event_attr; nullopt if it is shorter than the struct's first version.
  [[nodiscard]] static std::optional<Attr> parse(std::span<const std::byte> bytes);
};

struct Sample {
  std::uint64_t time = 0;
  std::uint32_t cpu = 0;
  std::span<std::byte> raw;  // of a tracepoint: the kernel's record of the event, as in ftrace
};

// The offsets of the fields in the records of one attr.
class RecordShape {
 public:
  RecordShape(std::uint64_t sample_type, std::uint64_t read_format);
  // Parses a whole record with its header. False, or nullopt, if a field is outside the record.
  [[nodiscard]] bool sample(std::span<std::byte> record, Sample& sample) const {
    std::uint64_t at = rest_;
    if (!has_place_ || record.size() < at || !skip_chain(record, at)) return false;
    if (record.size() - at < 4) return false;
    const auto size = load<std::uint32_t>(record.data() + at);
    at += 4;
    if (size > record.size() - at) return false;
    sample = {load<std::uint64_t>(record.data() + time_), load<std::uint32_t>(record.data() + cpu_),
              record.subspan(at, size)};
    return true;
  }
  // Returns the time and the CPU at the end of a record that is not a sample (sample_id_all).
  [[nodiscard]] std::optional<Sample> trailer(std::span<const std::byte> record) const;
  // Returns the id of a sample or another record, if sample_type has one.
  [[nodiscard]] std::optional<std::uint64_t> id(std::span<const std::byte> record,
                                                bool is_sample) const;

 private:
  // Moves `at` from after the period to the end of the call chain.
  [[nodiscard]] bool skip_chain(std::span<const std::byte> record, std::uint64_t& at) const {
    return (sample_type_ & (kRead | kCallchain)) == 0 || skip_values(record, at);
  }
  [[nodiscard]] bool skip_values(std::span<const std::byte> record, std::uint64_t& at) const;

  std::uint64_t sample_type_, read_format_;
  bool has_place_;                               // has time and CPU
  std::uint32_t time_ = 0, cpu_ = 0, rest_ = 0;  // offsets in a sample; `rest_` is after the period
  // Size of the trailer, and offsets in it.
  std::uint32_t trailer_ = 0, trailer_time_ = 0, trailer_cpu_ = 0;
};

// Finds the attr of an id; an event has one id for each CPU or thread.
class AttrsById {
 public:
  // If an id is added twice, the last attr counts.
  void add(std::uint64_t id, std::uint16_t attr) {
    if (const auto known = find_entry(id); known != FlatIndex::kNone) {
      all_[known].second = attr;
      return;
    }
    all_.emplace_back(id, attr);
    index_.add(hash_of(id));
  }
  // find() returns this for an id that no attr has.
  static constexpr std::uint16_t kNone = 0xffff;
  [[nodiscard]] std::uint16_t find(std::uint64_t id) const {
    const auto known = find_entry(id);
    return known == FlatIndex::kNone ? kNone : all_[known].second;
  }

 private:
  [[nodiscard]] std::uint32_t find_entry(std::uint64_t id) const {
    return index_.find(hash_of(id), [&](std::uint32_t i) { return all_[i].first == id; });
  }
  [[nodiscard]] static std::uint32_t hash_of(std::uint64_t id) {
    return static_cast<std::uint32_t>((id * 0x9e3779b97f4a7c15u) >> 32);
  }
  std::vector<std::pair<std::uint64_t, std::uint16_t>> all_;
  FlatIndex index_;
};

}  // namespace trapline::perf_data
