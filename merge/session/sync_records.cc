#include "merge/session/sync_records.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>

#include "merge/source/uftrace/sync_file.h"

namespace trapline::clocks {
namespace {

nlohmann::json readings_to_json(const ClockReadings& readings) {
  nlohmann::json json = nlohmann::json::object();
  for (std::size_t i = 0; i < kReadableClocks; ++i) {
    if (readings.values[i] != 0) json[std::string(kClockNames[i])] = readings.values[i];
  }
  return json;
}

bool readings_from_json(const nlohmann::json& entry, const char* key, ClockReadings& readings) {
  const auto found = entry.find(key);
  if (found == entry.end() || !found->is_object()) return false;
  for (std::size_t i = 0; i < kReadableClocks; ++i) {
    const auto value = found->find(std::string(kClockNames[i]));
    if (value != found->end() && value->is_number_unsigned()) {
      readings.values[i] = value->get<std::uint64_t>();
    }
  }
  return true;
}

bool ordered(const SyncPoint& point) {
  for (std::size_t i = 0; i < kReadableClocks; ++i) {
    if (point.after.values[i] < point.before.values[i]) return false;
  }
  return true;
}

}  // namespace

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

nlohmann::json to_json(const SyncEntry& entry) {
  return {{"series", entry.series},
          {"stamp_ns", entry.point.stamp},
          {"before", readings_to_json(entry.point.before)},
          {"after", readings_to_json(entry.point.after)}};
}

std::vector<SyncEntry> sync_from_json(const nlohmann::json& list) {
  std::vector<SyncEntry> entries;
  if (!list.is_array()) return entries;
  for (const auto& element : list) {
    if (!element.is_object()) continue;
    const auto stamp = element.find("stamp_ns");
    const auto series = element.find("series");
    SyncEntry entry;
    if (stamp == element.end() || !stamp->is_number_unsigned()) continue;
    if (series != element.end() && series->is_number_unsigned()) {
      entry.series = series->get<std::uint64_t>();
    }
    entry.point.stamp = stamp->get<std::uint64_t>();
    if (!readings_from_json(element, "before", entry.point.before) ||
        !readings_from_json(element, "after", entry.point.after) || !ordered(entry.point)) {
      continue;
    }
    entries.push_back(entry);
  }
  std::ranges::stable_sort(entries, {}, [](const SyncEntry& entry) { return entry.point.stamp; });
  return entries;
}

}  // namespace trapline::clocks

namespace trapline {

std::vector<GuestSyncLine> read_guest_sync_file(const std::string& path) {
  std::vector<GuestSyncLine> lines;
  std::ifstream file(path);
  for (std::string text; lines.size() < GuestBounds::kMaxRecords && std::getline(file, text);) {
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
