// One line from a guest's clock to its host's, with the error that is guaranteed. Pure.
//
//   target │        ╱ ╱      The map is the middle of FeasibleLines at both ends of the time asked
//          │   ┬  ╱ ╱┬       for; the error is how far any other feasible line is from it. So where
//          │   ┴╱ ╱  ┴       the true relation is a line, it is inside the error.
//          │  ╱ ╱
//          └────────── source
//
// Where no line meets all bounds, one of the clocks was slewed, or the bounds contradict each
// other:
//   they agree with a rate that changes by at most kMaxDriftPpm: the line takes the least tolerance
//   by which all are widened, and the error reaches to all that such a rate allows;
//   they do not: an Error that names the two bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "backend_ftrace/base/result.h"
#include "merge/clock/clock_map.h"
#include "merge/clock/feasible_lines.h"

namespace trapline {

class ClockLine {
 public:
  // `from` and `to`: the source times that will be converted. An error where the bounds do not
  // limit the line from both sides, or contradict each other.
  [[nodiscard]] static Result<ClockLine> fit(std::span<const ClockBound> bounds, std::uint64_t from,
                                             std::uint64_t to,
                                             clocks::RateWindow rates = clocks::kAnyRate);

  [[nodiscard]] std::uint64_t at(std::uint64_t source_time) const { return piece_(source_time); }
  // The source time at which the target's clock reads this, to a few nanoseconds.
  [[nodiscard]] std::uint64_t source_of(std::uint64_t target_time) const;
  // At one moment: small between bounds, growing outside of them; kNoHigh outside of from() to
  // to().
  [[nodiscard]] std::uint64_t error_at(std::uint64_t source_time) const;
  // The greatest between from() and to(), tolerance included.
  [[nodiscard]] std::uint64_t error() const { return error_; }
  // 0: a line meets all bounds.
  [[nodiscard]] std::uint64_t tolerance() const { return tolerance_; }
  [[nodiscard]] std::uint64_t from() const { return from_; }
  [[nodiscard]] std::uint64_t to() const { return to_; }
  [[nodiscard]] double rate() const;  // target per source
  // Target less source, at the first bound.
  [[nodiscard]] std::int64_t offset() const {
    return static_cast<std::int64_t>(at(first_) - first_);
  }

 private:
  [[nodiscard]] std::uint64_t lines_error(std::uint64_t source_time) const;
  void take(const clocks::FeasibleLines& lines, std::uint64_t from, std::uint64_t to);

  std::optional<clocks::FeasibleLines> lines_;
  ClockMap::Piece piece_;
  std::uint64_t first_ = 0, from_ = 0, to_ = 0, error_ = 0, tolerance_ = 0;
};

}  // namespace trapline
