#include "merge/session/sync_records.h"

namespace trapline::clocks {
std::vector<SyncEntry> read_sync_markers(Source& source) {
  SyncGatherer gatherer;
  Event event;
  while (source.next(event) == Read::kEvent) {
    const auto* marker = std::get_if<Marker>(&event.payload);
    if (marker == nullptr || !marker->text.starts_with(kSyncPrefix)) continue;
    if (const auto record = parse_sync(marker->text)) gatherer.add(*record, event.at.ns());
  }
  return gatherer.take();
}

std::vector<SyncEntry> brackets_of(const SyncFile& file) {
  SyncGatherer gatherer;
  for (const auto& [stamp, record] : file.records) gatherer.add(record, stamp);
  return gatherer.take();
}

}  // namespace trapline::clocks
