// Exits (requests) by row and by time: what a comparison keeps of a recording.
//
//   time   |  bin 0  |  bin 1  |  bin 2  | …        at most kMostBins; when one more is needed, or
//   row    |  sums, counts by bucket of duration    the counts take too much, two become one
//
// A row's counts by bucket are those of Histogram, so that bins can be added up and percentiles of
// any selection of them found. Memory does not grow with the recording's length.
#pragma once

#include <cstdint>
#include <vector>

#include "merge/model/exit_span.h"
#include "merge/model/histogram.h"

namespace trapline {

struct BucketCount {
  std::uint32_t count;
  std::uint16_t bucket;  // Histogram::bucket_of
};

// What happened in one row in one bin.
struct RowBin {
  std::uint32_t bin = 0;
  std::uint64_t count = 0, total = 0;
  Parts parts{};
  std::vector<BucketCount> buckets;  // ascending

  void merge(const RowBin& other);
};
using RowBins = std::vector<RowBin>;  // ascending, without empty ones
// Both of one recording.
[[nodiscard]] RowBins merged(const RowBins& a, const RowBins& b);

class TimeBins {
 public:
  static constexpr std::uint32_t kMostBins = 512;
  static constexpr std::uint32_t kFewestBins = 64;  // not made fewer to save memory
  static constexpr std::size_t kMostCounts = std::size_t{1} << 20;

  // Where bin 0 begins. Call before the first add.
  void begin_at(Timestamp origin) { origin_ = origin; }
  // Row `row` (a small number; rows come into being) had an exit that ended at `at`. Times that go
  // back are counted in the row's last bin.
  void add(std::size_t row, Timestamp at, std::uint64_t duration, const Parts& parts);
  // The guest ran for this long before `at`.
  void add_guest(Timestamp at, std::uint64_t ns);
  // Completes the rows. Nothing may be added afterwards.
  void finish();

  [[nodiscard]] std::uint64_t width() const { return std::uint64_t{1} << shift_; }
  [[nodiscard]] Timestamp origin() const { return origin_; }
  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  [[nodiscard]] RowBins take(std::size_t row) { return std::move(rows_[row].bins); }
  [[nodiscard]] const std::vector<std::uint64_t>& guest() const { return guest_; }

 private:
  struct Row {
    RowBins bins;
    RowBin open;
    std::vector<std::uint32_t> counts;   // of the open bin, by bucket
    std::vector<std::uint16_t> touched;  // the buckets that are not 0
  };
  [[nodiscard]] std::uint32_t bin_of(Timestamp at);
  void close(Row& row);
  void widen();

  Timestamp origin_;
  unsigned shift_ = 16;  // a bin is 2^shift_ ns wide
  std::vector<Row> rows_;
  std::vector<std::uint64_t> guest_;
  std::size_t kept_ = 0;  // BucketCounts
};

}  // namespace trapline
