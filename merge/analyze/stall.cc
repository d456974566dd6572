#include "merge/analyze/stall.h"

#include <algorithm>

namespace trapline {

void StallShares::add(StallCause cause, const Culprit& culprit, std::uint64_t ns, ThreadId root) {
  if (ns == 0) return;
  const auto same = std::ranges::find_if(sums_, [&](const StallShare& share) {
    return share.cause == cause && share.culprit == culprit;
  });
  if (same != sums_.end()) {
    same->ns += ns;
    if (same->root != root) same->root = {};
  } else if (sums_.size() < kMost) {
    sums_.push_back({cause, culprit, ns, root});
  } else if (culprit != unknown_for(Missing::kRoom)) {
    add(cause, unknown_for(Missing::kRoom), ns);
  } else {
    sums_.push_back({cause, culprit, ns});  // one for each cause
  }
}

void StallShares::add(const StallShares& others) {
  for (const StallShare& share : others.sums_)
    add(share.cause, share.culprit, share.ns, share.root);
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
