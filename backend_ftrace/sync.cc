#include "backend_ftrace/sync.h"

#include <unistd.h>

#include <charconv>
#include <cstring>

namespace trapline {
namespace {

constexpr std::string_view kPrefix = "trapline: sync 1 ";

// Digits by hand: this runs inside the bracket, whose width is the error bound.
char* put(char* to, std::uint64_t value) {
  char digits[20];
  int count = 0;
  do {
    digits[count++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  while (count > 0) *to++ = digits[--count];
  return to;
}

char* put(char* to, std::string_view text) {
  std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

char* put(char* to, std::string_view title, const std::optional<ClockReadings>& readings) {
  if (!readings) return to;
  to = put(to, title);
  for (std::size_t i = 0; i < kReadableClocks; ++i) {
    if (readings->values[i] == 0) continue;
    *to++ = ' ';
    to = put(to, kClockNames[i]);
    *to++ = '=';
    to = put(to, readings->values[i]);
  }
  return to;
}

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

ClockReadings read_clocks() {
  ClockReadings readings;
  for (std::size_t i = 0; i < kReadableClocks; ++i) {
    readings.values[i] = read_clock(static_cast<ClockId>(i));
  }
  return readings;
}

std::size_t format_sync(const SyncRecord& record, char (&text)[kMaxSyncText]) {
  // 17 + two numbers + two titles + 12 readings of at most 9 + 1 + 1 + 20 bytes each.
  static_assert(kPrefix.size() + 20 + 1 + 10 + 7 + 7 + 12 * 31 <= kMaxSyncText);
  char* to = put(text, kPrefix);
  to = put(to, record.series);
  *to++ = ' ';
  to = put(to, record.index);
  to = put(to, " before", record.before);
  to = put(to, " after", record.after);
  return static_cast<std::size_t>(to - text);
}

std::optional<SyncRecord> parse_sync(std::string_view text) {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
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

SyncSeries::SyncSeries(unsigned tries) : tries_(tries == 0 ? kSyncTries : tries) {
  // Unique enough in one recording: two writers would have to start in the same nanosecond with
  // process ids that differ by a multiple of 4096.
  record_.series =
      read_clock(ClockId::kMono) * 4096 + static_cast<std::uint64_t>(::getpid()) % 4096;
}

std::size_t SyncSeries::next(char (&text)[kMaxSyncText]) {
  if (record_.index > tries_) return 0;
  record_.before.reset();
  if (record_.index < tries_) record_.before = read_clocks();
  return format_sync(record_, text);
}

void SyncSeries::written() {
  record_.after = read_clocks();
  ++record_.index;
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
