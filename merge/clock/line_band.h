// The line through bounds: which lines "target = offset + rate · source" meet every bound, and how
// far apart they are. Pure.
//
//   target │      ┬ hi            The lines that pass between all lo and hi form a band. The line
//          │   ┬  ╱┴ lo           returned runs inside it; `error` is how far any other of them can
//          │   ┴╱                 be from it in the time asked for. So where the true relation is a
//          │ ┬╱                   line, it is inside the error.
//          │ ┴                    Where no line meets all (clocks are corrected now and then), the
//          └──────────── source   least `tolerance` by which all are widened is part of the error.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "backend_ftrace/base/result.h"
#include "merge/clock/guest_bounds.h"

namespace trapline {

struct ClockLine {
  std::uint64_t source = 0;  // here the target's clock reads `target`
  std::uint64_t target = 0;
  double rate = 1;              // target per source
  std::uint64_t error = 0;      // guaranteed between `from` and `to`, tolerance included
  std::uint64_t tolerance = 0;  // 0: the bounds agree
  [[nodiscard]] std::uint64_t at(std::uint64_t source_time) const;
  // The source time at which the target's clock reads this, to a few nanoseconds.
  [[nodiscard]] std::uint64_t source_of(std::uint64_t target_time) const;
  // The error at one moment: small between bounds, growing outside of them; kNoHigh outside of
  // `from` to `to`.
  [[nodiscard]] std::uint64_t error_at(std::uint64_t source_time) const;

  static constexpr std::size_t kSteps = 64;
  std::uint64_t from = 0, to = 0;
  std::array<std::uint64_t, kSteps + 1> errors{};  // from `from` to `to` in equal steps
};

// `from` and `to`: the source times that will be converted. An error when the bounds do not limit
// the line from both sides.
[[nodiscard]] Result<ClockLine> fit_line(std::span<const ClockBound> bounds, std::uint64_t from,
                                         std::uint64_t to);

}  // namespace trapline
