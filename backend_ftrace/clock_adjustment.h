// How a kernel is adjusting its clocks mono, boot, tai and real at one moment, as adjtimex(2)
// reports it. Sync records carry this (docs/formats/sync.md).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backend_ftrace/base/text.h"

namespace trapline {

struct ClockAdjustment {
  std::int64_t status = 0;
  std::int64_t frequency = 0;  // 2^-16 ppm
  std::int64_t tick = 10'000;  // us for each hundredth of a second
  std::int64_t offset = 0;     // ns that the kernel still has to slew away
  std::int64_t constant = 0;   // the kernel slews 1 in 2^(2 + constant) of `offset` per second
  std::int64_t single = 0;     // us that adjtime(3) still has to slew away, at most 500 per second

  // Returns how fast the clocks run compared to the hardware counter, in parts per million.
  [[nodiscard]] double ppm() const {
    const double slewed =
        std::ldexp(static_cast<double>(offset) / 1000,
                   -static_cast<int>(2 + std::clamp<std::int64_t>(constant, 0, 30)));
    return static_cast<double>(frequency) / 65536 + static_cast<double>(tick - 10'000) * 100 +
           slewed + static_cast<double>(std::clamp<std::int64_t>(single, -500, 500));
  }
  friend bool operator==(const ClockAdjustment&, const ClockAdjustment&) = default;
};

// Formats as "STATUS:FREQUENCY:TICK:OFFSET:CONSTANT:SINGLE".
[[nodiscard]] inline std::string text_of(const ClockAdjustment& a) {
  std::string text = std::to_string(a.status);
  for (const std::int64_t value : {a.frequency, a.tick, a.offset, a.constant, a.single})
    text += ':' + std::to_string(value);
  return text;
}
// Parses what text_of() formats. Returns nullopt for any other text.
[[nodiscard]] inline std::optional<ClockAdjustment> parse_adjustment(std::string_view text) {
  std::int64_t values[6];
  for (std::int64_t& value : values) {
    const bool is_last = &value == &values[5];
    if (!(is_last ? take_number(text, value) : take_number_to(text, value, ':')))
      return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  return ClockAdjustment{values[0], values[1], values[2], values[3], values[4], values[5]};
}

// Asks the kernel. Returns nullopt when adjtimex(2) fails.
[[nodiscard]] std::optional<ClockAdjustment> read_adjustment();

}  // namespace trapline
