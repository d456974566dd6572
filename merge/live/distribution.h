// Durations of one group in one interval, small enough to be kept by the thousand: the values, then
// the buckets, of a Histogram, without those that are empty. Percentiles are those of a Histogram
// of the same values.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "merge/model/histogram.h"

namespace trapline::live {

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
  // The value of rank ceil(per_mille * count / 1000), where it is known.
  [[nodiscard]] std::optional<std::uint64_t> percentile(std::uint32_t per_mille) const;
  // About so many bytes beside itself.
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
  std::vector<Bucket> buckets_;        // in order of their numbers
};

}  // namespace trapline::live
