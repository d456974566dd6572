#include "merge/model/histogram.h"

#include <algorithm>

namespace trapline {

std::uint64_t& Histogram::bucket(std::uint64_t value) {
  const std::size_t number = bucket_of(value);
  if (octaves_.empty()) octaves_.resize(kOctaves);
  auto& octave = octaves_[number / kSubBuckets];
  if (octave == nullptr) octave = std::make_unique<Octave>();
  return (*octave)[number % kSubBuckets];
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

Histogram& Histogram::operator=(const Histogram& other) {
  if (this == &other) return *this;
  count_ = other.count_, total_ = other.total_, max_ = other.max_, min_ = other.min_;
  values_ = other.values_;
  octaves_.clear();
  for (const auto& octave : other.octaves_)
    octaves_.push_back(octave == nullptr ? nullptr : std::make_unique<Octave>(*octave));
  return *this;
}

void Histogram::merge(const Histogram& other) {
  if (other.count_ == 0) return;
  for (const std::uint64_t value : other.values_) add(value);
  if (!other.values_.empty()) return;
  spill();
  note(other.count_, other.total_, other.min_, other.max_);
  if (octaves_.empty()) octaves_.resize(kOctaves);
  for (std::size_t octave = 0; octave < other.octaves_.size(); ++octave) {
    if (other.octaves_[octave] == nullptr) continue;
    if (octaves_[octave] == nullptr) octaves_[octave] = std::make_unique<Octave>();
    for (std::size_t i = 0; i < kSubBuckets; ++i)
      (*octaves_[octave])[i] += (*other.octaves_[octave])[i];
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
    if (octaves_[octave] == nullptr) continue;
    for (std::size_t i = 0; i < kSubBuckets; ++i) {
      below += (*octaves_[octave])[i];
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
    if (const auto& octave = octaves_[bucket / kSubBuckets])
      count += (*octave)[bucket % kSubBuckets];
  return count;
}

std::size_t Histogram::size() const {
  const auto octaves =
      std::ranges::count_if(octaves_, [](const auto& octave) { return octave != nullptr; });
  return (values_.capacity() + octaves_.capacity()) * sizeof(values_[0]) +
         static_cast<std::size_t>(octaves) * sizeof(Octave);
}

}  // namespace trapline
