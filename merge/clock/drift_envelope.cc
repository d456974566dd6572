#include "merge/clock/drift_envelope.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trapline::clocks {
namespace {

constexpr long double kInfinity = std::numeric_limits<long double>::infinity();

long double minus_exact(std::uint64_t a, std::uint64_t b) {
  return static_cast<long double>(static_cast<std::int64_t>(a - b));
}

}  // namespace

DriftEnvelope::DriftEnvelope(std::span<const ClockBound> bounds, RateWindow rates) : rates_(rates) {
  for (const ClockBound& bound : bounds) {
    if (target_ == 0 && bound.has_low()) target_ = bound.at_least;
  }
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const ClockBound& bound = bounds[i];
    if (bound.has_low())
      places_.push_back({bound.low_source, minus_exact(bound.at_least, target_), kInfinity, i, i});
    if (bound.has_high())
      places_.push_back({bound.high_source, -kInfinity, minus_exact(bound.at_most, target_), i, i});
  }
  std::ranges::stable_sort(places_, {}, &Place::source);
  for (std::size_t i = 1; i < places_.size(); ++i) sweep(places_[i - 1], places_[i], true);
  for (std::size_t i = places_.size(); i-- > 1;) sweep(places_[i], places_[i - 1], false);
  long double worst = 0;
  for (const Place& place : places_) {
    if (place.low - place.high <= worst) continue;
    worst = place.low - place.high;
    contradiction_ = {bounds[place.low_of], bounds[place.high_of],
                      static_cast<std::uint64_t>(std::ceil(worst))};
  }
}

// What a neighbour's limits leave here.
void DriftEnvelope::sweep(const Place& neighbour, Place& place, bool forward) const {
  const long double apart = minus_exact(place.source, neighbour.source);
  const long double low = neighbour.low + (forward ? rates_.least : rates_.most) * apart;
  const long double high = neighbour.high + (forward ? rates_.most : rates_.least) * apart;
  if (low > place.low) {
    place.low = low;
    place.low_of = neighbour.low_of;
  }
  if (high < place.high) {
    place.high = high;
    place.high_of = neighbour.high_of;
  }
}

FeasibleLines::Range DriftEnvelope::at(std::uint64_t source) const {
  const auto after = std::ranges::lower_bound(places_, source, {}, &Place::source);
  Place here{source, -kInfinity, kInfinity, 0, 0};
  if (after != places_.end()) sweep(*after, here, false);
  if (after != places_.begin()) sweep(*(after - 1), here, true);
  return {here.low + static_cast<long double>(target_),
          here.high + static_cast<long double>(target_)};
}

// Between two places each side of the envelope is two lines: it is furthest away where they meet,
// or at an end.
long double DriftEnvelope::distance(const ClockMap::Piece& map, std::uint64_t from,
                                    std::uint64_t to) const {
  long double most = 0;
  const auto look = [&](std::uint64_t source) {
    const FeasibleLines::Range range = at(source);
    const auto mapped = static_cast<long double>(map(source));
    most = std::max({most, range.high - mapped, mapped - range.low});
  };
  look(from);
  look(to);
  const long double turn = rates_.most - rates_.least;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& a = places_[i];
    if (a.source >= from && a.source <= to) look(a.source);
    if (i + 1 == places_.size() || turn <= 0) continue;
    const Place& b = places_[i + 1];
    const long double apart = minus_exact(b.source, a.source);
    for (const long double along : {(b.high - a.high - rates_.least * apart) / turn,
                                    (a.low - b.low + rates_.most * apart) / turn}) {
      const auto meet = a.source + static_cast<std::uint64_t>(std::clamp(along, 0.0L, apart));
      for (const std::uint64_t source : {meet, meet + 1})
        if (source >= from && source <= to) look(source);
    }
  }
  return most;
}

}  // namespace trapline::clocks
