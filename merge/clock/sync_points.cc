#include "merge/clock/sync_points.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend_ftrace/base/text.h"

namespace trapline::clocks {
namespace {

constexpr std::size_t kLongestLine = 64 * 1024;

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

bool earlier(const SyncEntry& a, const SyncEntry& b) { return a.point.stamp < b.point.stamp; }

}  // namespace

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
    entries_.push_back(*std::min_element(
        entries.begin(), entries.end(),
        [](const SyncEntry& a, const SyncEntry& b) { return narrower(a.point, b.point); }));
  } else {
    entries_.insert(entries_.end(), entries.begin(), entries.end());
  }
  open_.erase(found);
}

std::vector<SyncEntry> SyncGatherer::take() {
  while (!open_.empty()) close(open_.begin()->first);
  std::stable_sort(entries_.begin(), entries_.end(), earlier);
  return std::move(entries_);
}

std::vector<SyncEntry> read_sync_markers(Source& source) {
  SyncGatherer gatherer;
  Event event;
  while (source.next(event)) {
    const auto* marker = std::get_if<Marker>(&event.payload);
    if (marker == nullptr || !marker->text.starts_with(kSyncPrefix)) continue;
    if (const auto record = parse_sync(marker->text)) gatherer.add(*record, event.at.ns());
  }
  return gatherer.take();
}

Result<SyncFile> read_sync_file(const std::string& path) {
  SyncFile result;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (errno == ENOENT) return result;
    return fail("cannot open {}: {}", path, std::strerror(errno));
  }
  constexpr std::string_view kClock = "# clock: ";
  SyncGatherer gatherer;
  std::string text;
  // The file holds sections, each with its own comment; all name the same clock.
  while (std::getline(file, text)) {
    std::string_view line = text;
    if (line.size() > kLongestLine) {
      return fail(ErrorKind::kDamaged, "{}: a line of {} bytes is no sync record", path,
                  line.size());
    }
    if (line.starts_with(kClock)) {
      result.clock = trimmed(line.substr(kClock.size()));
      continue;
    }
    std::uint64_t stamp = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), stamp);
    if (error != std::errc{} || end == line.data() + line.size() || *end != ' ') continue;
    line.remove_prefix(static_cast<std::size_t>(end + 1 - line.data()));
    if (const auto record = parse_sync(line)) gatherer.add(*record, stamp);
  }
  result.entries = gatherer.take();
  return result;
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
  std::stable_sort(entries.begin(), entries.end(), earlier);
  return entries;
}

}  // namespace trapline::clocks
