#include "backend_ftrace/sync.h"

#include <sys/timex.h>
#include <unistd.h>

#include <charconv>
#include <concepts>
#include <cstring>

namespace trapline {
namespace {

// Writes the digits without a stream or a format: this runs inside the bracket, whose width is the
// error bound.
char* put(char* to, std::integral auto value) { return std::to_chars(to, to + 20, value).ptr; }

char* put(char* to, std::string_view text) {
  std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

char* put(char* to, const ClockAdjustment& now) {
  to = put(to, " ntp");
  char separator = '=';
  for (const std::int64_t value :
       {now.status, now.frequency, now.tick, now.offset, now.constant, now.single}) {
    *to++ = separator;
    to = put(to, value);
    separator = ':';
  }
  return to;
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

std::optional<ClockAdjustment> read_adjustment() {
  struct timex now {};
  if (::adjtimex(&now) < 0) return std::nullopt;
  struct timex single {};
  single.modes = ADJ_OFFSET_SS_READ;
  if (::adjtimex(&single) < 0) return std::nullopt;
  const long unit = (now.status & STA_NANO) != 0 ? 1 : 1000;
  return ClockAdjustment{now.status,        now.freq,     now.tick,
                         now.offset * unit, now.constant, single.offset};
}

std::size_t format_sync(const SyncRecord& record, char (&text)[kMaxSyncText]) {
  // 17 bytes of prefix, two numbers, two titles, and 12 readings of at most 9 + 1 + 1 + 20 bytes
  // each.
  static_assert(kSyncPrefix.size() + 20 + 1 + 10 + 7 + 7 + 12 * 31 <= kMaxSyncText);
  // In place of readings after it, the first record has an adjustment: 4 bytes and six numbers of
  // 21.
  static_assert(4 + 6 * 21 <= 7 + 6 * 31);
  char* to = put(text, kSyncPrefix);
  to = put(to, record.series);
  *to++ = ' ';
  to = put(to, record.index);
  if (record.adjustment && !record.after) to = put(to, *record.adjustment);
  to = put(to, " before", record.before);
  to = put(to, " after", record.after);
  return static_cast<std::size_t>(to - text);
}

SyncSeries::SyncSeries(unsigned tries) : tries_(tries == 0 ? kSyncTries : tries) {
  // Unique enough within one recording: two writers would collide only if they started in the same
  // nanosecond with process ids that differ by a multiple of 4096.
  record_.series =
      read_clock(ClockId::kMono) * 4096 + static_cast<std::uint64_t>(::getpid()) % 4096;
  record_.adjustment = read_adjustment();
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
