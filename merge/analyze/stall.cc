#include "merge/analyze/stall.h"

#include <algorithm>

namespace trapline {

void StallShares::add(const StallShare& share) {
  if (share.ns == 0) return;
  const auto same = std::ranges::find_if(sums_, [&](const StallShare& one) {
    return one.cause == share.cause && one.culprit == share.culprit && one.work == share.work;
  });
  if (same != sums_.end()) {
    same->ns += share.ns;
    if (same->root != share.root) same->root = {};
  } else if (sums_.size() < kMost) {
    sums_.push_back(share);
  } else if (const StallShare other{share.cause, unknown_for(Missing::kRoom), share.ns};
             share.culprit != other.culprit || share.work != other.work) {
    add(other);
  } else {
    sums_.push_back(other);  // one for each cause
  }
}

void StallShares::add(const StallShares& others) {
  for (const StallShare& share : others.sums_) add(share);
}

void StallShares::set_work(MemoryWork work) {
  for (StallShare& share : sums_) {
    if (share.work == MemoryWork::kNone) share.work = work;
  }
}

std::uint64_t StallShares::total() const {
  std::uint64_t sum = 0;
  for (const StallShare& share : sums_) sum += share.ns;
  return sum;
}

std::vector<StallShare> StallShares::largest_first() const {
  std::vector<StallShare> sorted = sums_;
  std::ranges::stable_sort(sorted, std::ranges::greater(), &StallShare::ns);
  return sorted;
}

}  // namespace trapline
