// One interval of a live view, as plain data that is small enough to keep the last minutes.
//
//   exits ──> cells (vCPU x reason x device x the dimensions of --by) ──> rows by any of these
//
// A cell counts the exits that ended in the interval. Exits that began before the interval are
// included and also counted separately (carried); without them, a cell has the figures of `trapline
// report` for the interval.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "merge/analyze/exit_tracker.h"
#include "merge/model/histogram.h"
#include "merge/model/loss_counts.h"
#include "merge/report/dimensions.h"
#include "merge/report/waits.h"

namespace trapline::live {

// The durations of one group in one interval, small enough to keep thousands: the values, then the
// buckets, of a Histogram, without empty ones. Percentiles are those of a Histogram with the same
// values.
class Distribution {
 public:
  void add(std::uint64_t value) {
    note(1, value, value, value);
    if (count_ > Histogram::kExact) [[likely]] {
      if (!values_.empty()) spill();
      ++bucket(Histogram::bucket_of(value));
    } else {
      values_.push_back(value);
    }
  }
  void merge(const Distribution& other);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] std::uint64_t max() const { return max_; }
  [[nodiscard]] std::uint64_t mean() const { return count_ == 0 ? 0 : total_ / count_; }
  // Returns the value of rank ceil(per_mille * count / 1000), if it is known.
  [[nodiscard]] std::optional<std::uint64_t> percentile(std::uint32_t per_mille) const;
  // Returns how many durations are at most `value`; exact if that is the largest value of a
  // Histogram's bucket.
  [[nodiscard]] std::uint64_t count_up_to(std::uint64_t value) const;
  // Returns approximately how many bytes it needs besides this object.
  [[nodiscard]] std::size_t size() const {
    return values_.capacity() * sizeof(values_[0]) + buckets_.capacity() * sizeof(buckets_[0]);
  }
  void shrink() {
    values_.shrink_to_fit();
    buckets_.shrink_to_fit();
  }

 private:
  struct Bucket {
    std::uint32_t number;
    std::uint32_t count;
  };
  void note(std::uint64_t count, std::uint64_t total, std::uint64_t min, std::uint64_t max) {
    min_ = count_ == 0 || min < min_ ? min : min_;
    max_ = max > max_ ? max : max_;
    count_ += count;
    total_ += total;
  }
  [[nodiscard]] std::uint32_t& bucket(std::size_t number);
  void spill();

  std::uint64_t count_ = 0, total_ = 0, min_ = 0, max_ = 0;
  std::vector<std::uint64_t> values_;  // of the first Histogram::kExact
  std::vector<Bucket> buckets_;        // in the order of their numbers
};

// The dimensions that cells always have; those of --by follow.
inline constexpr std::array kBaseDimensions{Dimension::kVcpu, Dimension::kReason,
                                            Dimension::kDevice};
enum BaseWord : std::size_t { kVcpuWord, kReasonWord, kDeviceWord };

// One exit with the details for a line of a table.
struct SlowExit {
  Timestamp start;
  std::uint64_t total = 0;
  Parts parts{};
  ThreadId thread{};
  GroupKey key;  // of its cell
  KvmDetail detail = kNoDetail;
  NameId vmm_event = kNoName;
  std::uint64_t rip = 0;
  bool halt = false;
};

struct Cell {
  GroupKey key;
  Distribution total;
  Parts parts{};
  std::uint64_t carried = 0, carried_ns = 0;  // of the exits that began before the interval
  SlowExit slowest;
};

// A vCPU's time between begin and end, including the exits open at both ends: at most the interval.
struct VcpuUse {
  ThreadId thread{};
  VcpuTotals totals;
};

// A time without progress of a vCPU: `trapline stalls`.
struct SeenStall {
  ThreadId thread{};
  Timestamp begin, end;
  bool open = false;  // it still lasts
  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
};

struct RequestTotals {
  std::string key;
  Distribution total;
};

struct Frame : LossCounts {
  Timestamp begin, end;
  std::vector<Cell> cells;
  std::uint64_t folded = 0;  // exits beyond the greatest number of cells
  std::vector<VcpuUse> vcpus;
  std::vector<SlowExit> slow;  // the slowest exits that are not halts, the slowest first
  WaitReport waits;
  std::vector<RequestTotals> requests;
  std::optional<SeenStall> longest_stall;  // of those that ended in the last minute, or still last
  std::uint64_t events = 0, damaged_events = 0;

  [[nodiscard]] std::uint64_t length() const { return elapsed(begin, end); }
  // Returns approximately how many bytes the frame takes.
  [[nodiscard]] std::size_t size() const;
};

}  // namespace trapline::live
