#include "merge/clock/sync_points.h"

#include <algorithm>

namespace trapline::clocks {

void SyncGatherer::add(const SyncRecord& record, std::uint64_t stamp) {
  if (open_.size() >= kMostOpen && !open_.contains(record.series)) close(open_.begin()->first);
  Series& series = open_[record.series];
  if (const auto point = series.collector.add(record, stamp)) {
    if (series.entries.size() < kMany) series.entries.push_back({record.series, *point});
  }
  if (!record.before) close(record.series);
}

void SyncGatherer::close(std::uint64_t series) {
  const auto found = open_.find(series);
  std::vector<SyncEntry>& entries = found->second.entries;
  if (entries_.size() + entries.size() > kMany && !entries.empty()) {
    entries_.push_back(*std::ranges::min_element(entries, narrower, &SyncEntry::point));
  } else {
    entries_.insert(entries_.end(), entries.begin(), entries.end());
  }
  open_.erase(found);
}

std::vector<SyncEntry> SyncGatherer::take() {
  while (!open_.empty()) close(open_.begin()->first);
  std::ranges::stable_sort(entries_, {}, [](const SyncEntry& entry) { return entry.point.stamp; });
  return std::move(entries_);
}

}  // namespace trapline::clocks
