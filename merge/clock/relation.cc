#include "merge/clock/relation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend_ftrace/base/text.h"

namespace trapline::clocks {
namespace {

// Limit for the times of bounds, so that differences fit in 63 bits.
constexpr std::uint64_t kMostTime = kLastTime / 2;
// Limit for the pieces of a map that follows the envelope.
constexpr std::uint64_t kMostPieces = 512;

std::string rate_text(const WanderEnvelope::Stretch& stretch) {
  return fmt::format("from {} to {}", seconds_text(stretch.first), seconds_text(stretch.last));
}

tl::unexpected<Error> contradicts(const WanderEnvelope::Contradiction& seen,
                                  const Assumption& assumption) {
  if (seen.fast && seen.slow) {
    return fail(
        "the sync records contradict each other, or a clock was set, slewed or suspended: by its "
        "own times, the other clock ran {:.1f} ppm faster beside it {} than {}, and a change of at "
        "most {} ppm is assumed (--rate-change)",
        static_cast<double>((seen.fast->rate / seen.slow->rate - 1) * 1e6L), rate_text(*seen.fast),
        rate_text(*seen.slow), assumption.change_ppm);
  }
  if (seen.fast || seen.slow) {
    const WanderEnvelope::Stretch& only = seen.fast ? *seen.fast : *seen.slow;
    return fail(
        "the sync records contradict each other, or a clock was set, slewed or suspended: by its "
        "own times, the other clock ran at {} times its rate {}, at {} {}",
        static_cast<double>(only.rate), rate_text(only), seen.fast ? "most" : "least",
        seen.fast ? assumption.rates.most : assumption.rates.least);
  }
  return fail("the sync records contradict each other at {} of its times",
              seconds_text(seen.at_once.value_or(0)));
}

std::uint64_t first_source(const ClockBound& b) {
  if (!b.has_low()) return b.high_source;
  return b.has_high() ? std::min(b.low_source, b.high_source) : b.low_source;
}
std::uint64_t last_source(const ClockBound& b) {
  return std::max(b.has_low() ? b.low_source : 0, b.has_high() ? b.high_source : 0);
}

std::size_t count_groups(const std::vector<ClockBound>& bounds) {
  std::size_t groups = bounds.empty() ? 0 : 1;
  for (std::size_t i = 1; i < bounds.size(); ++i)
    if (bounds[i].group != bounds[i - 1].group) ++groups;
  return groups;
}

}  // namespace

Result<Relation> Relation::fit(std::span<const ClockBound> bounds, const Assumption& assumption,
                               std::optional<Interval> interval, Reach reach) {
  std::vector<ClockBound> plausible;
  for (const ClockBound& b : bounds) {
    if (b.low_source > kMostTime || b.high_source > kMostTime || b.at_least > kMostTime) continue;
    if (b.has_high() && b.at_most > kMostTime) continue;
    plausible.push_back(b);
  }
  if (plausible.empty()) return fail("there are no sync records");
  if (std::ranges::none_of(plausible, &ClockBound::has_low) ||
      std::ranges::none_of(plausible, &ClockBound::has_high))
    return fail("its sync records bound the relation from one side only");
  WanderEnvelope envelope(plausible, assumption);
  if (envelope.contradiction()) return contradicts(*envelope.contradiction(), assumption);
  Relation relation(std::move(envelope));
  relation.assumption_ = assumption;
  relation.groups_ = count_groups(plausible);
  const bool given = interval && interval->first <= interval->last;
  relation.interval_ = given ? *interval : Interval{kLastTime, 0};
  if (!given || reach == Reach::kBoundsToo) {
    for (const ClockBound& b : plausible) {
      relation.interval_.first = std::min(relation.interval_.first, first_source(b));
      relation.interval_.last = std::max(relation.interval_.last, last_source(b));
    }
  }
  relation.make_map();
  return relation;
}

// Makes the map, of one line or more. Any map is correct, because the error covers all times that
// envelope_ allows; this one is likely to be the nearest.
void Relation::make_map() {
  const std::optional<Range> lines = envelope_.line_rates();
  std::vector<std::uint64_t> knots{interval_.first};
  if (!lines) {
    const std::uint64_t apart = (interval_.last - interval_.first) / kMostPieces;
    for (const std::uint64_t place : envelope_.places())
      if (place > knots.back() + apart && place < interval_.last) knots.push_back(place);
  }
  const auto middle = [&](std::uint64_t source) {
    return (lines ? envelope_.lines_at(*lines, source) : envelope_.at(source)).middle();
  };
  for (std::size_t i = 0; i < knots.size(); ++i) {
    const std::uint64_t first = knots[i];
    const std::uint64_t last = i + 1 < knots.size() ? knots[i + 1] : interval_.last;
    const long double start = middle(first);
    const RateWindow rates = envelope_.rates();
    const long double rate = last == first
                                 ? (static_cast<long double>(rates.least) + rates.most) / 2
                                 : (middle(last) - start) / static_cast<long double>(last - first);
    pieces_.push_back(piece_of(i == 0 ? 0 : first, first, start, rate));
  }
  measure_error();
}

void Relation::take_map(const Relation& other) {
  pieces_ = other.pieces_;
  measure_error();
}

// Measures the error, which includes two roundings: the map's to whole times, and the source
// clock's own.
void Relation::measure_error() {
  error_ = 0;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const std::uint64_t first = std::max(pieces_[i].from, interval_.first);
    const std::uint64_t last =
        i + 1 < pieces_.size() ? std::min(pieces_[i + 1].from, interval_.last) : interval_.last;
    if (first > last) continue;
    const long double distance = envelope_.distance(pieces_[i], first, last);
    error_ = std::max(error_, clamped_time(std::ceil(distance + 2 + envelope_.rates().most)));
  }
  map_ = ClockMap(pieces_);
}

std::uint64_t Relation::error_at(std::uint64_t source) const {
  const Range possible = envelope_.at(source);
  const auto mapped = static_cast<long double>(map_(source));
  const long double error = std::max(possible.high - mapped, mapped - possible.low);
  return clamped_time(std::ceil(error + 1 + envelope_.rates().most));
}

std::int64_t Relation::offset() const {
  return static_cast<std::int64_t>(map_(interval_.first) - interval_.first);
}

SourceAlignment Relation::alignment(std::string method) const {
  return {std::move(method), map_, offset(), error_, std::nullopt, assumption_.change_ppm};
}

Result<Relation> relate(std::span<const ClockBound> brackets, std::span<const SyncEntry> witness,
                        const RelatedClock& from, const RelatedClock& to, RateWindow rates,
                        std::optional<double> given, std::optional<Interval> interval) {
  if (from.id && to.id) {
    if (auto kept = check_not_set(witness, *from.id, *to.id); !kept)
      return tl::unexpected(std::move(kept).error());
  }
  const bool steady = from.drive == to.drive && from.drive != Drive::kOther;
  const std::vector<NotedAdjustment> kernels[] = {noted_in(witness)};
  const auto change = assumed_change(std::span(kernels).first(steady ? 0 : 1), given);
  if (!change) return tl::unexpected(change.error());
  return Relation::fit(brackets, {rates, *change}, interval);
}

}  // namespace trapline::clocks
