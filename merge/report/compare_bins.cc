#include "merge/report/compare_bins.h"

#include <algorithm>
#include <utility>

namespace trapline {

void RowBin::merge(const RowBin& other) {
  count += other.count;
  total += other.total;
  for (std::size_t i = 0; i < kParts; ++i) parts[i] += other.parts[i];
  std::vector<BucketCount> both;
  both.reserve(buckets.size() + other.buckets.size());
  auto a = buckets.begin();
  for (const BucketCount& b : other.buckets) {
    while (a != buckets.end() && a->bucket < b.bucket) both.push_back(*a++);
    both.push_back(b);
    if (a != buckets.end() && a->bucket == b.bucket) both.back().count += (a++)->count;
  }
  both.insert(both.end(), a, buckets.end());
  both.shrink_to_fit();
  buckets = std::move(both);
}

RowBins merged(const RowBins& a, const RowBins& b) {
  RowBins both;
  auto next = a.begin();
  for (const RowBin& bin : b) {
    while (next != a.end() && next->bin < bin.bin) both.push_back(*next++);
    both.push_back(bin);
    if (next != a.end() && next->bin == bin.bin) both.back().merge(*next++);
  }
  both.insert(both.end(), next, a.end());
  return both;
}

std::uint32_t TimeBins::bin_of(Timestamp at) {
  while (elapsed(origin_, at) >> shift_ >= kMostBins) widen();
  return static_cast<std::uint32_t>(elapsed(origin_, at) >> shift_);
}

void TimeBins::add(std::size_t number, Timestamp at, std::uint64_t duration, const Parts& parts) {
  const std::uint32_t bin = bin_of(at);
  if (number >= rows_.size()) rows_.resize(number + 1);
  Row& row = rows_[number];
  if (row.counts.empty()) row.counts.resize(Histogram::kBuckets);
  if (bin > row.open.bin) {
    close(row);
    if (kept_ > kMostCounts && origin_ < at && elapsed(origin_, at) >> shift_ >= 2 * kFewestBins) {
      widen();
    }
    row.open.bin = bin_of(at);
  }
  ++row.open.count;
  row.open.total += duration;
  for (std::size_t i = 0; i < kParts; ++i) row.open.parts[i] += parts[i];
  const std::size_t bucket = Histogram::bucket_of(duration);
  if (row.counts[bucket]++ == 0) row.touched.push_back(static_cast<std::uint16_t>(bucket));
}

void TimeBins::add_guest(Timestamp at, std::uint64_t ns) {
  const std::uint32_t bin = bin_of(at);
  if (bin >= guest_.size()) guest_.resize(bin + 1);
  guest_[bin] += ns;
}

void TimeBins::close(Row& row) {
  if (row.open.count == 0) return;
  std::sort(row.touched.begin(), row.touched.end());
  row.open.buckets.reserve(row.touched.size());
  for (const std::uint16_t bucket : row.touched) {
    row.open.buckets.push_back({std::exchange(row.counts[bucket], 0), bucket});
  }
  row.touched.clear();
  kept_ += row.open.buckets.size();
  const std::uint32_t bin = row.open.bin;
  if (!row.bins.empty() && row.bins.back().bin == bin) {
    row.bins.back().merge(row.open);
  } else {
    row.bins.push_back(std::move(row.open));
  }
  row.open = RowBin();
  row.open.bin = bin;
}

void TimeBins::widen() {
  ++shift_;
  kept_ = 0;
  for (Row& row : rows_) {
    close(row);
    RowBins half;
    for (RowBin& bin : row.bins) {
      bin.bin /= 2;
      if (!half.empty() && half.back().bin == bin.bin) {
        half.back().merge(bin);
      } else {
        half.push_back(std::move(bin));
      }
    }
    row.bins = std::move(half);
    row.open.bin /= 2;
    for (const RowBin& bin : row.bins) kept_ += bin.buckets.size();
  }
  for (std::size_t i = 0; i < guest_.size(); ++i) {
    const std::uint64_t ns = std::exchange(guest_[i], 0);
    guest_[i / 2] += ns;
  }
  guest_.resize((guest_.size() + 1) / 2);
}

void TimeBins::finish() {
  for (Row& row : rows_) {
    close(row);
    row.counts = {};
  }
}

}  // namespace trapline
