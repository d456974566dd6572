// How one clock runs beside another, from brackets: a line, or several where a clock was set.
//
//   brackets ── the longest run that one line meets ──→ FeasibleLines ─┐
//               the next run …                      ──→ FeasibleLines ─┴→ pieces of the source's
//               time
//
// Guaranteed, where each clock runs at one rate but for what happens between two groups of brackets
// (it is set, or its rate changes, once): the true target time is within error_at() of map(). Two
// groups alone cannot show that a clock was set between them. Groups that the runs on both sides of
// a change could claim belong to neither.
//
// A piece is possible between the clock bounds before and after it: in the target's time where the
// source's clock was set, in the source's time where the target's was. Where two pieces are
// possible, nothing tells which one holds: the map takes the middle, and the error reaches to both.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/clock/clock_bound.h"
#include "merge/clock/clock_map.h"
#include "merge/clock/feasible_lines.h"

namespace trapline::clocks {

struct Interval {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

// Which of the two clocks somebody may have set. What it was decides which source times are
// possible before and after.
enum class Settable : std::uint8_t { kSource, kTarget, kEither };

// A change that no line explains: the target's clock beside the source's.
struct Step {
  Interval between;     // source times of the clock bounds before and after it
  std::int64_t by = 0;  // target less source grew by this
  Interval ambiguous;   // source times that either piece explains; empty (first > last) for none
  std::uint64_t error = 0;  // there
};

class Relation {
 public:
  // `brackets` in the order in which they happened. `interval`: the source times that will be
  // converted; the bracketed ones are added to it. An error when the brackets do not bound the
  // relation from both sides.
  [[nodiscard]] static Result<Relation> fit(std::span<const ClockBound> brackets, RateWindow rates,
                                            std::optional<Interval> interval = std::nullopt,
                                            Settable settable = Settable::kEither);

  [[nodiscard]] const ClockMap& map() const { return map_; }
  [[nodiscard]] std::uint64_t error_at(std::uint64_t source) const;
  // The greatest in the interval, outside the ambiguous times of steps.
  [[nodiscard]] std::uint64_t error() const { return error_; }
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  [[nodiscard]] std::size_t groups() const { return groups_; }  // of brackets
  // Target less source at the interval's start.
  [[nodiscard]] std::int64_t offset() const;
  // How much faster than the source the target runs, in the first piece.
  [[nodiscard]] double drift_ppm() const;

 private:
  struct Run {
    std::vector<ClockBound> brackets;
    FeasibleLines lines;
    Interval possible{0, ~std::uint64_t{0} >> 1};
  };
  struct Segment {
    std::uint64_t from = 0;
    std::vector<std::size_t> runs;  // what is possible; the nearest where nothing is
  };
  void place_runs(Settable settable);
  void make_segments();
  void make_map();
  [[nodiscard]] FeasibleLines::Range range(const Segment& segment, std::uint64_t source) const;
  [[nodiscard]] const Segment& segment_at(std::uint64_t source) const;
  void find_steps();

  std::vector<Run> runs_;
  std::vector<Segment> segments_;
  std::vector<Step> steps_;
  Interval interval_;
  ClockMap map_;
  std::uint64_t error_ = 0;
  std::size_t groups_ = 0;
};

}  // namespace trapline::clocks
