#include "backend_ftrace/guest_sync.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/sync_words.h"

namespace trapline {
namespace {

constexpr std::array<std::string_view, 3> kCounterNames{"tsc", "cntvct", "time"};

// Parses exactly n numbers separated by colons.
template <std::size_t n>
bool numbers(std::string_view text, std::array<std::uint64_t, n>& values) {
  for (std::uint64_t& value : values) {
    const auto number = parse_number(sync_words::next_word(text, ':'));
    if (!number) return false;
    value = *number;
  }
  return text.empty();
}

bool fits(std::uint64_t value) { return value <= 0xffffffffU; }

// Parses the value of the word "port=0x80:0x1234" or, with `mmio`, "mmio=0x9000000:1": `text` is
// what follows the =, the port or address and the number that the guest wrote there.
bool parse_write(bool mmio, std::string_view text, GuestSyncRecord& record) {
  std::array<std::uint64_t, 2> values{};
  if (!numbers(text, values) || !fits(values[0]) || !fits(values[1])) return false;
  record.write = GuestWrite{mmio, static_cast<std::uint32_t>(values[0]),
                            static_cast<std::uint32_t>(values[1])};
  return true;
}

bool parse_ptp(std::string_view text, GuestSyncRecord& record) {
  std::array<std::uint64_t, 3> values{};
  if (!numbers(text, values)) return false;
  record.ptp = PtpReading{values[0], values[1], values[2]};
  return true;
}

bool parse_reading(std::string_view key, std::string_view text, GuestReading& reading,
                   GuestSyncRecord& record) {
  const auto value = parse_number(text);
  if (!value) return false;
  for (std::size_t i = 0; i < kCounterNames.size(); ++i) {
    if (kCounterNames[i] != key) continue;
    reading.counter = *value;
    record.counter = static_cast<GuestCounter>(i);
    return true;
  }
  const auto clock = clock_from_name(key);
  if (clock && is_readable(*clock)) {
    reading.clock = *value;
    record.clock = *clock;
  }
  return true;
}

void append(std::string& text, std::string_view title, const std::optional<GuestReading>& reading,
            const GuestSyncRecord& record) {
  if (!reading) return;
  auto to = std::back_inserter(text);
  fmt::format_to(to, " {}", title);
  if (reading->clock != 0) fmt::format_to(to, " {}={}", clock_name(record.clock), reading->clock);
  if (reading->counter != 0)
    fmt::format_to(to, " {}={}", kCounterNames[static_cast<std::size_t>(record.counter)],
                   reading->counter);
}

}  // namespace

std::string format_guest_sync(const GuestSyncRecord& record) {
  std::string text = fmt::format("{}{} {}", kGuestSyncPrefix, record.series, record.index);
  if (record.marker) text += " marker";
  if (record.write)
    fmt::format_to(std::back_inserter(text), " {}=0x{:x}:0x{:x}",
                   record.write->mmio ? "mmio" : "port", record.write->where, record.write->value);
  if (record.ptp)
    fmt::format_to(std::back_inserter(text), " ptp={}:{}:{}", record.ptp->host_real,
                   record.ptp->real, record.ptp->mono_raw);
  if (record.adjustment) text += " ntp=" + text_of(*record.adjustment);
  append(text, "before", record.before, record);
  append(text, "after", record.after, record);
  return text;
}

std::optional<GuestSyncRecord> parse_guest_sync(std::string_view text) {
  GuestSyncRecord record;
  const auto take = [&](GuestReading* reading, std::string_view key, std::string_view value) {
    if (reading != nullptr) return parse_reading(key, value, *reading, record);
    if (key == "marker") record.marker = true;
    if (key == "port" || key == "mmio") return parse_write(key == "mmio", value, record);
    if (key == "ptp") return parse_ptp(value, record);
    if (key == "ntp") record.adjustment = parse_adjustment(value);
    return true;
  };
  if (!sync_words::walk(text, kGuestSyncPrefix, record, take)) return std::nullopt;
  if (!record.marker && !record.before && !record.after) return std::nullopt;
  return record;
}

std::optional<GuestSyncRecord> guest_sync_of(const std::uint64_t (&operands)[6],
                                             GuestCounter counter) {
  enum Flags : unsigned { kBefore = 1, kAfter = 2, kPort = 4, kMmio = 8 };
  const std::uint64_t header = operands[0];
  const auto flags = static_cast<unsigned>(header >> 8 & 0xff);
  const auto clock = static_cast<std::uint8_t>(header & 0xff);
  const bool clock_known = clock == 0xff || clock <= static_cast<std::uint8_t>(ClockId::kReal);
  if ((flags & (kBefore | kAfter)) == 0 || flags > 15 || !clock_known) return std::nullopt;
  GuestSyncRecord record;
  record.series = static_cast<std::uint32_t>(header >> 32);
  record.index = static_cast<std::uint32_t>(header >> 16 & 0xffff);
  record.counter = counter;
  if (clock != 0xff) record.clock = static_cast<ClockId>(clock);
  if ((flags & (kPort | kMmio)) != 0)
    record.write = GuestWrite{(flags & kMmio) != 0, static_cast<std::uint32_t>(operands[1] >> 32),
                              static_cast<std::uint32_t>(operands[1])};
  const std::uint64_t mask = clock == 0xff ? 0 : ~std::uint64_t{0};
  if ((flags & kBefore) != 0) record.before = GuestReading{operands[2] & mask, operands[3]};
  if ((flags & kAfter) != 0) record.after = GuestReading{operands[4] & mask, operands[5]};
  return record;
}

}  // namespace trapline
