// The reading half of sync.h, apart from the writing half: only this one needs the C++ library.
#include <charconv>

#include "backend_ftrace/sync.h"

namespace trapline {
namespace {

// Words separated by single blanks.
std::string_view next_word(std::string_view& text) {
  const auto end = text.find(' ');
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

template <typename T>
bool number(std::string_view word, T& value) {
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  return error == std::errc{} && stop == end && !word.empty();
}

}  // namespace

std::optional<SyncRecord> parse_sync(std::string_view text) {
  if (!text.starts_with(kSyncPrefix)) return std::nullopt;
  text.remove_prefix(kSyncPrefix.size());
  while (text.ends_with('\n') || text.ends_with('\0')) text.remove_suffix(1);
  SyncRecord record;
  if (!number(next_word(text), record.series) || !number(next_word(text), record.index)) {
    return std::nullopt;
  }
  std::optional<ClockReadings>* part = nullptr;
  while (!text.empty()) {
    const std::string_view word = next_word(text);
    if (word == "before" || word == "after") {
      part = word == "before" ? &record.before : &record.after;
      if (part->has_value()) return std::nullopt;
      part->emplace();
      continue;
    }
    const auto equals = word.find('=');
    std::uint64_t value = 0;
    if (part == nullptr || equals == std::string_view::npos ||
        !number(word.substr(equals + 1), value)) {
      return std::nullopt;
    }
    const auto clock = clock_from_name(word.substr(0, equals));
    if (clock && is_readable(*clock)) (*part)->values[static_cast<std::size_t>(*clock)] = value;
  }
  if (!record.before && !record.after) return std::nullopt;
  return record;
}

std::optional<SyncPoint> SyncCollector::add(const SyncRecord& record, std::uint64_t stamp) {
  std::optional<SyncPoint> point;
  if (is_open_ && record.after && record.series == open_.series &&
      record.index == open_.index + 1) {
    point = SyncPoint{open_stamp_, *open_.before, *record.after};
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
