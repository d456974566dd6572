// Relates one clock to another, from bounds: a map, and an error bound that holds under an
// assumption on how far the clocks' rates change. Pure.
//
//   bounds ─→ WanderEnvelope ─┬─ where the target's clock can be ─────────→ error
//                             └─ one line where the bounds let the rates be constant, else the
//                                middle of the envelope from bound to bound ─→ map
//
// The true target time is within error_at() of the map, if the assumption holds. If bounds
// contradict the assumption, because a clock was set, slewed or stopped, the Error says when.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/clock/assumption.h"
#include "merge/clock/clock_bound.h"
#include "merge/clock/sync_points.h"
#include "merge/clock/wander_envelope.h"
#include "merge/model/source_alignment.h"

namespace trapline::clocks {

struct Interval {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

class Relation {
 public:
  Relation() = default;  // relates no clocks
  // Says which source times fit() covers: those of `interval`, which will be converted, and with
  // kBoundsToo also those of the bounds.
  enum class Reach : std::uint8_t { kBoundsToo, kIntervalOnly };
  [[nodiscard]] static Result<Relation> fit(std::span<const ClockBound> bounds,
                                            const Assumption& assumption,
                                            std::optional<Interval> interval = std::nullopt,
                                            Reach reach = Reach::kBoundsToo);

  [[nodiscard]] const ClockMap& map() const { return map_; }
  // Replaces the map by that of another relation of the same clocks and interval, which is a better
  // guess.
  void take_map(const Relation& other);
  [[nodiscard]] std::uint64_t error_at(std::uint64_t source) const;
  // Returns the greatest error in the interval, in target ticks.
  [[nodiscard]] std::uint64_t error() const { return error_; }
  [[nodiscard]] const Interval& interval() const { return interval_; }
  [[nodiscard]] const Assumption& assumption() const { return assumption_; }
  [[nodiscard]] std::size_t groups() const { return groups_; }  // number of groups of bounds
  // Returns target minus source at the start of the interval.
  [[nodiscard]] std::int64_t offset() const;
  // Returns how a source is aligned by this relation.
  [[nodiscard]] SourceAlignment alignment(std::string method) const;

 private:
  explicit Relation(WanderEnvelope envelope) : envelope_(std::move(envelope)) {}
  void make_map();
  void measure_error();

  WanderEnvelope envelope_;
  Assumption assumption_;
  Interval interval_;
  std::vector<ClockMap::Piece> pieces_;
  ClockMap map_;
  std::uint64_t error_ = 0;
  std::size_t groups_ = 0;
};

// A clock that relate() relates: its id, if it is one of the kernel's.
struct RelatedClock {
  std::optional<ClockId> id;
  Drive drive = Drive::kOther;
};
// Relates two clocks by brackets. `witness`: the sync records that the brackets are from, recorded
// under the one kernel that may adjust either clock. `given` is as for assumed_change().
[[nodiscard]] Result<Relation> relate(std::span<const ClockBound> brackets,
                                      std::span<const SyncEntry> witness, const RelatedClock& from,
                                      const RelatedClock& to, RateWindow rates,
                                      std::optional<double> given,
                                      std::optional<Interval> interval);

}  // namespace trapline::clocks
