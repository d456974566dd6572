// Durations of one group: exact count, sum, minimum and maximum; percentiles by nearest rank, where
// there are values enough to tell them.
//
// The first kExact values are kept as they are, and percentiles are then exact. More go into
// buckets, 128 to each power of two: a percentile is off by at most 1/256 of its value. An octave's
// buckets are allocated when its first value comes, so a group costs a few KiB whatever its spread.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace trapline {

class Histogram {
 public:
  Histogram() = default;
  Histogram(const Histogram& other) { *this = other; }
  Histogram& operator=(const Histogram& other);
  Histogram(Histogram&&) noexcept = default;
  Histogram& operator=(Histogram&&) noexcept = default;

  static constexpr std::size_t kExact = 32;

  // The buckets, for who keeps counts of its own by them: numbered by value, from 0.
  static constexpr unsigned kSubBits = 7;
  static constexpr std::size_t kSubBuckets = std::size_t{1} << kSubBits;
  // Octave 0 holds the values below 128 as they are, octave n those of 128 << (n - 1) up.
  static constexpr std::size_t kOctaves = 64 - kSubBits + 1;
  static constexpr std::size_t kBuckets = kOctaves * kSubBuckets;
  [[nodiscard]] static constexpr std::size_t bucket_of(std::uint64_t value) {
    const auto octave = static_cast<std::size_t>(std::bit_width(value >> kSubBits));
    return octave == 0 ? static_cast<std::size_t>(value)
                       : octave * kSubBuckets +
                             static_cast<std::size_t>((value >> (octave - 1)) - kSubBuckets);
  }
  // The value in the middle of a bucket.
  [[nodiscard]] static constexpr std::uint64_t middle_of(std::size_t bucket) {
    const std::size_t octave = bucket / kSubBuckets, index = bucket % kSubBuckets;
    if (octave == 0) return index;
    const std::uint64_t width = std::uint64_t{1} << (octave - 1);
    return (kSubBuckets + index) * width + (width - 1) / 2;
  }

  // The nearest rank, from 1: ceil(per_mille * count / 1000), without overflow for any count.
  [[nodiscard]] static constexpr std::uint64_t rank_of(std::uint64_t count,
                                                       std::uint32_t per_mille) {
    const std::uint64_t rank = count / 1000 * per_mille + (count % 1000 * per_mille + 999) / 1000;
    return rank == 0 ? 1 : rank;
  }

  // A percentile above the median is known where values lie above its rank: a p99 of fewer than 100
  // would be their maximum, which is a figure of its own.
  [[nodiscard]] static constexpr bool knows(std::uint64_t count, std::uint32_t per_mille) {
    return count != 0 && (per_mille <= 500 || rank_of(count, per_mille) < count);
  }

  void add(std::uint64_t value) {
    ++count_;
    total_ += value;
    min_ = value < min_ ? value : min_;
    max_ = value > max_ ? value : max_;
    // Most go into a bucket of an octave that is there.
    const std::size_t number = bucket_of(value);
    Octave* const octave = octaves_.empty() ? nullptr : octaves_[number / kSubBuckets].get();
    if (octave != nullptr) [[likely]]
      ++(*octave)[number % kSubBuckets];
    else
      add_new(value);
  }
  void merge(const Histogram& other);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] std::uint64_t max() const { return max_; }
  [[nodiscard]] std::uint64_t mean() const { return count_ == 0 ? 0 : total_ / count_; }
  // The value of rank ceil(per_mille * count / 1000), where it is known.
  [[nodiscard]] std::optional<std::uint64_t> percentile(std::uint32_t per_mille) const;

 private:
  using Octave = std::array<std::uint64_t, kSubBuckets>;

  [[nodiscard]] std::uint64_t& bucket(std::uint64_t value);
  void add_new(std::uint64_t value);
  void spill();

  std::uint64_t count_ = 0, total_ = 0, max_ = 0;
  std::uint64_t min_ = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> values_;  // of the first kExact
  std::vector<std::unique_ptr<Octave>> octaves_;
};

}  // namespace trapline
