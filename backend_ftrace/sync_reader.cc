// The reading half of sync.h. It is a file of its own because only it needs the C++ library.
#include "backend_ftrace/sync.h"
#include "backend_ftrace/sync_words.h"

namespace trapline {

std::optional<SyncRecord> parse_sync(std::string_view text) {
  SyncRecord record;
  const auto take = [&record](ClockReadings* readings, std::string_view key,
                              std::string_view text_value) {
    std::uint64_t value = 0;
    if (readings == nullptr && key == "ntp") {
      record.adjustment = parse_adjustment(text_value);
      return true;
    }
    if (readings == nullptr || !sync_words::number(text_value, value)) return false;
    const auto clock = clock_from_name(key);
    if (clock && is_readable(*clock)) readings->values[static_cast<std::size_t>(*clock)] = value;
    return true;
  };
  if (!sync_words::walk(text, kSyncPrefix, record, take)) return std::nullopt;
  if (!record.before && !record.after) return std::nullopt;
  return record;
}

std::optional<SyncPoint> SyncCollector::add(const SyncRecord& record, std::uint64_t stamp) {
  std::optional<SyncPoint> point;
  if (record.adjustment || !is_open_ || record.series != open_.series)
    adjustment_ = record.adjustment;
  if (is_open_ && record.after && record.series == open_.series &&
      record.index == open_.index + 1) {
    point = SyncPoint{open_stamp_, *open_.before, *record.after, adjustment_};
    for (std::size_t i = 0; i < kReadableClocks; ++i) {
      if (point->after.values[i] < point->before.values[i]) point.reset();  // a clock was set back
      if (!point) break;
    }
  }
  is_open_ = record.before.has_value();
  open_ = record;
  open_stamp_ = stamp;
  return point;
}

}  // namespace trapline
