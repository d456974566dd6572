#include "merge/live/frame.h"

#include <algorithm>

namespace trapline::live {

std::uint32_t& Distribution::bucket(std::size_t number) {
  const auto at = std::lower_bound(
      buckets_.begin(), buckets_.end(), number,
      [](const Bucket& bucket, std::size_t wanted) { return bucket.number < wanted; });
  if (at != buckets_.end() && at->number == number) [[likely]]
    return at->count;
  return buckets_.insert(at, {static_cast<std::uint32_t>(number), 0})->count;
}

void Distribution::spill() {
  for (const std::uint64_t value : values_) ++bucket(Histogram::bucket_of(value));
  values_.clear();
  values_.shrink_to_fit();
}

void Distribution::merge(const Distribution& other) {
  if (other.count_ == 0) return;
  for (const std::uint64_t value : other.values_) add(value);
  if (!other.values_.empty()) return;
  spill();
  note(other.count_, other.total_, other.min_, other.max_);
  for (const Bucket& more : other.buckets_) bucket(more.number) += more.count;
}

std::optional<std::uint64_t> Distribution::percentile(std::uint32_t per_mille) const {
  if (!Histogram::knows(count_, per_mille)) return std::nullopt;
  const std::uint64_t rank = Histogram::rank_of(count_, per_mille);
  if (!values_.empty()) {
    auto sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<std::size_t>(rank - 1)];
  }
  std::uint64_t below = 0;
  for (const Bucket& bucket : buckets_) {
    below += bucket.count;
    if (below >= rank) return std::clamp(Histogram::middle_of(bucket.number), min(), max());
  }
  return max();
}

std::uint64_t Distribution::count_up_to(std::uint64_t value) const {
  auto count = static_cast<std::uint64_t>(
      std::ranges::count_if(values_, [value](std::uint64_t one) { return one <= value; }));
  for (const Bucket& bucket : buckets_)
    if (bucket.number <= Histogram::bucket_of(value)) count += bucket.count;
  return count;
}

std::size_t Frame::size() const {
  std::size_t bytes = sizeof(Frame) + cells.capacity() * sizeof(Cell) +
                      slow.capacity() * sizeof(SlowExit) + vcpus.capacity() * sizeof(VcpuUse) +
                      requests.capacity() * sizeof(RequestTotals);
  for (const Cell& cell : cells) bytes += cell.total.size();
  for (const RequestTotals& row : requests) bytes += row.total.size();
  // A row has two texts that may be on the heap.
  return bytes + (waits.preempted.rows.size() + waits.blocked.rows.size()) * sizeof(WaitRow) * 2;
}

}  // namespace trapline::live
