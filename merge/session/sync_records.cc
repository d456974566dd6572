#include "merge/session/sync_records.h"

#include <charconv>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/source/uftrace/sync_file.h"

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

Result<SyncFile> read_sync_file(const std::string& path) {
  auto file = read_stamped_syncs(path);
  if (!file) return tl::unexpected(std::move(file).error());
  SyncGatherer gatherer;
  for (const auto& [stamp, record] : file->records) gatherer.add(record, stamp);
  return SyncFile{std::move(file->clock), gatherer.take()};
}

}  // namespace trapline::clocks

namespace trapline {

std::vector<GuestSyncLine> read_guest_sync_file(const std::string& path) {
  std::vector<GuestSyncLine> lines;
  const std::string file = read_text(path).value_or("");
  for (std::string_view left = file; lines.size() < GuestBounds::kMaxRecords && !left.empty();) {
    const std::string_view text = take_line(left);
    std::string_view rest = text;
    GuestSyncLine line;
    std::uint64_t stamp = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), stamp);
    if (error == std::errc{} && end != text.data() + text.size() && *end == ' ') {
      line.stamp = stamp;
      rest.remove_prefix(static_cast<std::size_t>(end + 1 - text.data()));
    }
    const auto record = parse_guest_sync(rest);
    if (!record) continue;
    line.record = *record;
    lines.push_back(line);
  }
  return lines;
}

}  // namespace trapline
