#include "merge/model/histogram.h"

#include <algorithm>

namespace trapline {

std::uint64_t& Histogram::bucket(std::uint64_t value) {
  const std::size_t number = bucket_of(value);
  if (octaves_.empty()) octaves_.resize(kOctaves);
  auto& octave = octaves_[number / kSubBuckets];
  octave.resize(kSubBuckets);
  return octave[number % kSubBuckets];
}

// Stores a value that is one of the first kExact or the first of its octave; the caller has counted
// it.
void Histogram::add_new(std::uint64_t value) {
  if (count_ <= kExact) {
    values_.push_back(value);
    return;
  }
  if (!values_.empty()) spill();
  ++bucket(value);
}

void Histogram::spill() {
  for (const std::uint64_t value : values_) ++bucket(value);
  values_.clear();
  values_.shrink_to_fit();
}

void Histogram::merge(const Histogram& other) {
  if (other.count_ == 0) return;
  for (const std::uint64_t value : other.values_) add(value);
  if (!other.values_.empty()) return;
  spill();
  note(other.count_, other.total_, other.min_, other.max_);
  if (octaves_.empty()) octaves_.resize(kOctaves);
  for (std::size_t octave = 0; octave < other.octaves_.size(); ++octave) {
    const std::vector<std::uint64_t>& more = other.octaves_[octave];
    octaves_[octave].resize(std::max(octaves_[octave].size(), more.size()));
    for (std::size_t i = 0; i < more.size(); ++i) octaves_[octave][i] += more[i];
  }
}

std::optional<std::uint64_t> Histogram::percentile(std::uint32_t per_mille) const {
  if (!knows(count_, per_mille)) return std::nullopt;
  const std::uint64_t rank = rank_of(count_, per_mille);
  if (!values_.empty()) {
    auto sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(rank - 1)];
  }
  std::uint64_t below = 0;
  for (std::size_t octave = 0; octave < octaves_.size(); ++octave) {
    for (std::size_t i = 0; i < octaves_[octave].size(); ++i) {
      below += octaves_[octave][i];
      if (below < rank) continue;
      return std::clamp(middle_of(octave * kSubBuckets + i), min(), max());
    }
  }
  return max();
}

std::uint64_t Histogram::count_up_to(std::uint64_t value) const {
  auto count = static_cast<std::uint64_t>(
      std::ranges::count_if(values_, [value](std::uint64_t one) { return one <= value; }));
  const std::size_t last = octaves_.empty() ? 0 : bucket_of(value) + 1;
  for (std::size_t bucket = 0; bucket < last; ++bucket)
    if (const auto& octave = octaves_[bucket / kSubBuckets]; !octave.empty())
      count += octave[bucket % kSubBuckets];
  return count;
}

std::size_t Histogram::size() const {
  std::size_t numbers = values_.capacity();
  for (const auto& octave : octaves_) numbers += octave.capacity();
  return numbers * sizeof(std::uint64_t) + octaves_.capacity() * sizeof(octaves_[0]);
}

}  // namespace trapline
