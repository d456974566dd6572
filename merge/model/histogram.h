// Durations of one group: exact count, sum, minimum and maximum; percentiles by nearest rank, if
// there are enough values for them.
//
// The first kExact values are stored as they are, and percentiles of no more values are exact. If
// there are more, all values go into buckets, 128 for each power of two (octave), and a percentile
// is off by at most 1/256 of its value. An octave's buckets are allocated for its first value, so a
// group costs a few KiB whatever its spread.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace trapline {

class Histogram {
 public:
  static constexpr std::size_t kExact = 32;

  // Buckets are numbered by value, from 0; callers may count by bucket themselves.
  static constexpr unsigned kSubBits = 7;
  static constexpr std::size_t kSubBuckets = std::size_t{1} << kSubBits;
  // Octave 0 holds the values below 128 exactly, octave n those from 128 << (n - 1) up.
  static constexpr std::size_t kOctaves = 64 - kSubBits + 1;
  [[nodiscard]] static constexpr std::size_t bucket_of(std::uint64_t value) {
    const auto octave = static_cast<std::size_t>(std::bit_width(value >> kSubBits));
    return octave == 0 ? static_cast<std::size_t>(value)
                       : octave * kSubBuckets +
                             static_cast<std::size_t>((value >> (octave - 1)) - kSubBuckets);
  }
  // Returns the value in the middle of a bucket.
  [[nodiscard]] static constexpr std::uint64_t middle_of(std::size_t bucket) {
    const std::size_t octave = bucket / kSubBuckets, index = bucket % kSubBuckets;
    if (octave == 0) return index;
    const std::uint64_t width = std::uint64_t{1} << (octave - 1);
    return (kSubBuckets + index) * width + (width - 1) / 2;
  }

  // Returns the nearest rank, from 1: ceil(per_mille * count / 1000), without overflow for any
  // count.
  [[nodiscard]] static constexpr std::uint64_t rank_of(std::uint64_t count,
                                                       std::uint32_t per_mille) {
    const std::uint64_t rank = count / 1000 * per_mille + (count % 1000 * per_mille + 999) / 1000;
    return rank == 0 ? 1 : rank;
  }

  // Returns whether a percentile is known. A percentile above the median needs values above its
  // rank: with fewer than 100 values, p99 would be the maximum, which is a separate figure.
  [[nodiscard]] static constexpr bool knows(std::uint64_t count, std::uint32_t per_mille) {
    return count != 0 && (per_mille <= 500 || rank_of(count, per_mille) < count);
  }

  void add(std::uint64_t value) {
    note(1, value, value, value);
    // Most values go into an octave that already has its buckets.
    const std::size_t number = bucket_of(value);
    if (!octaves_.empty() && !octaves_[number / kSubBuckets].empty()) [[likely]]
      ++octaves_[number / kSubBuckets][number % kSubBuckets];
    else
      add_new(value);
  }
  void merge(const Histogram& other);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] std::uint64_t max() const { return max_; }
  [[nodiscard]] std::uint64_t mean() const { return count_ == 0 ? 0 : total_ / count_; }
  // Returns the value of rank ceil(per_mille * count / 1000), if knows() says it is known.
  [[nodiscard]] std::optional<std::uint64_t> percentile(std::uint32_t per_mille) const;
  // Returns how many values are at most `value`; exact if `value` is the largest value of a bucket.
  [[nodiscard]] std::uint64_t count_up_to(std::uint64_t value) const;
  // Returns approximately how many bytes the histogram has allocated, besides the object itself.
  [[nodiscard]] std::size_t size() const;

 private:
  void note(std::uint64_t count, std::uint64_t total, std::uint64_t min, std::uint64_t max) {
    count_ += count;
    total_ += total;
    min_ = min < min_ ? min : min_;
    max_ = max > max_ ? max : max_;
  }
  [[nodiscard]] std::uint64_t& bucket(std::uint64_t value);
  void add_new(std::uint64_t value);
  void spill();

  std::uint64_t count_ = 0, total_ = 0, max_ = 0;
  std::uint64_t min_ = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> values_;  // all values, as long as there are at most kExact
  std::vector<std::vector<std::uint64_t>> octaves_;  // each has its buckets, or is empty
};

}  // namespace trapline
