#include "backend_ftrace/sync.h"

#include <unistd.h>

#include <cstring>

namespace trapline {
namespace {

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
  static_assert(kSyncPrefix.size() + 20 + 1 + 10 + 7 + 7 + 12 * 31 <= kMaxSyncText);
  char* to = put(text, kSyncPrefix);
  to = put(to, record.series);
  *to++ = ' ';
  to = put(to, record.index);
  to = put(to, " before", record.before);
  to = put(to, " after", record.after);
  return static_cast<std::size_t>(to - text);
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

}  // namespace trapline
