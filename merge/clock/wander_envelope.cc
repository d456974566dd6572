#include "merge/clock/wander_envelope.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace trapline::clocks {
namespace {

constexpr long double kInfinity = std::numeric_limits<long double>::infinity();
constexpr long double kRounding = 1e-3L;  // ns
// The range of rates is cut into kFineness cells for each change_ that it is wide, but into at most
// kMostCells, and all cells together have at most kMostPlaces places.
constexpr long double kFineness = 16;
constexpr std::size_t kMostCells = 64, kMostPlaces = 1u << 20;

long double difference(std::uint64_t a, std::uint64_t b) {
  return static_cast<long double>(static_cast<std::int64_t>(a - b));
}

// Narrows the range at each place to what the places before it allow, then to what the places after
// it allow.
void sweep(auto& places, long double slow, long double fast) {
  for (std::size_t i = 1; i < places.size(); ++i) {
    const auto& before = places[i - 1];
    auto& place = places[i];
    const long double apart = place.source - before.source;
    place.low = std::max(place.low, before.low + slow * apart);
    place.high = std::min(place.high, before.high + fast * apart);
  }
  for (std::size_t i = places.size(); i-- > 1;) {
    const auto& after = places[i];
    auto& place = places[i - 1];
    const long double apart = after.source - place.source;
    place.low = std::max(place.low, after.low - fast * apart);
    place.high = std::min(place.high, after.high - slow * apart);
  }
}

// Narrows a range, at whose end `from` alone `holds` is true, to two neighbouring values.
std::pair<long double, long double> turn(long double from, long double to, const auto& holds) {
  for (long double middle = 0; (middle = from + (to - from) / 2) != from && middle != to;)
    (holds(middle) ? from : to) = middle;
  return {from, to};
}

}  // namespace

WanderEnvelope::WanderEnvelope(std::span<const ClockBound> bounds, const Assumption& assumption) {
  const auto first = std::ranges::find_if(bounds, &ClockBound::has_low);
  if (first != bounds.end())
    std::tie(source_, target_) = std::tie(first->low_source, first->at_least);
  for (const ClockBound& bound : bounds) {
    if (bound.has_low())
      places_.push_back(
          {difference(bound.low_source, source_), difference(bound.at_least, target_), kInfinity});
    if (bound.has_high())
      places_.push_back(
          {difference(bound.high_source, source_), -kInfinity, difference(bound.at_most, target_)});
  }
  std::ranges::stable_sort(places_, {}, &Place::source);
  std::size_t kept = 0;  // one place for each time
  for (const Place& place : places_) {
    if (kept > 0 && places_[kept - 1].source == place.source) {
      Place& same = places_[kept - 1];
      same.low = std::max(same.low, place.low);
      same.high = std::min(same.high, place.high);
    } else {
      places_[kept++] = place;
    }
  }
  places_.resize(kept);
  thin_out(assumption.rates.least, assumption.rates.most);
  find_rates(assumption);
  if (contradiction_) return;
  thin_out(slowest_, fastest_ + change_);
  make_cells();
}

// Drops each side of a bound that the neighbouring bounds imply, whatever rate from `slow` to
// `fast` the clock has.
void WanderEnvelope::thin_out(long double slow, long double fast) {
  const auto pass = [&](auto begin, auto end, long double rate_low, long double rate_high) {
    long double low = -kInfinity, high = kInfinity, at = 0;
    for (auto place = begin; place != end; ++place) {
      const long double apart = place->source - at;
      low += rate_low * apart;
      high += rate_high * apart;
      at = place->source;
      if (place->low <= low) place->low = -kInfinity;
      if (place->high >= high) place->high = kInfinity;
      low = std::max(low, place->low);
      high = std::min(high, place->high);
    }
  };
  pass(places_.begin(), places_.end(), slow, fast);
  pass(places_.rbegin(), places_.rend(), fast, slow);
  std::erase_if(places_,
                [](const Place& place) { return std::isinf(place.low) && std::isinf(place.high); });
}

// Checks whether a clock with rates between `rate` and `rate` plus change_ can meet all bounds. If
// the clock cannot get from an earlier bound up to a lower side, it must be faster; if it cannot
// stay below an upper side, slower. Reports the steepest stretch of each kind: of all such
// stretches, the shortest around the moment at which the clock changed.
WanderEnvelope::Fit WanderEnvelope::try_rate(long double rate, Contradiction& seen) const {
  long double low = -kInfinity, high = kInfinity, at = 0;
  std::size_t low_of = 0, high_of = 0;
  std::optional<Stretch> fast, slow;
  const auto stretch = [this](std::size_t from, std::size_t to, long double target) {
    const Place &a = places_[from], &b = places_[to];
    return Stretch{source_ + static_cast<std::uint64_t>(std::llround(a.source)),
                   source_ + static_cast<std::uint64_t>(std::llround(b.source)),
                   target / (b.source - a.source)};
  };
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.low > place.high + kRounding) {
      seen.at_once = source_ + static_cast<std::uint64_t>(std::llround(place.source));
      return Fit::kNever;
    }
    const long double apart = place.source - at;
    low += rate * apart;
    high += (rate + change_) * apart;
    at = place.source;
    if (place.low > high + kRounding) {
      const Stretch one = stretch(high_of, i, place.low - places_[high_of].high);
      if (!fast || one.rate > fast->rate) fast = one;
    }
    if (place.high < low - kRounding) {
      const Stretch one = stretch(low_of, i, place.high - places_[low_of].low);
      if (!slow || one.rate < slow->rate) slow = one;
    }
    if (place.low >= low) low = place.low, low_of = i;
    if (place.high <= high) high = place.high, high_of = i;
  }
  if (fast) seen.fast = fast;
  if (slow) seen.slow = slow;
  if (fast && slow) return Fit::kNever;
  if (fast) return Fit::kTooSlow;
  return slow ? Fit::kTooFast : Fit::kMeets;
}

void WanderEnvelope::find_rates(const Assumption& assumption) {
  const long double least = assumption.rates.least, most = assumption.rates.most;
  // change_ is a share of this rate: the fastest rate of a line that fits all bounds.
  long double scale = most;
  if (most > 2 * least) {  // the two clocks count in different units
    Contradiction unused;
    long double good = least, bad = most;
    change_ = 0;
    for (int i = 0; i < 100; ++i) {
      const long double middle = good + (bad - good) / 2;
      const Fit fit = try_rate(middle, unused);
      (fit == Fit::kMeets || fit == Fit::kTooSlow ? good : bad) = middle;
    }
    scale = std::min(most, bad * 1.001L);
  }
  change_ = std::min(scale * static_cast<long double>(assumption.change_ppm) * 1e-6L, most - least);
  Contradiction seen;
  long double slow = least, fast = most - change_, met = least;
  Fit fit = try_rate(slow, seen);
  if (fit != Fit::kMeets && fit != Fit::kNever) {
    met = fast;
    fit = try_rate(fast, seen);
  }
  for (int i = 0; i < 100 && fit != Fit::kMeets && fit != Fit::kNever; ++i) {
    met = slow + (fast - slow) / 2;
    fit = try_rate(met, seen);
    (fit == Fit::kTooSlow ? slow : fast) = met;
  }
  if (fit != Fit::kMeets) {
    contradiction_ = seen;
    return;
  }
  // Takes the ends where the rate no longer fits all bounds, so that no possible rate is lost.
  const auto end_of = [&](long double good, long double bad) {
    if (try_rate(bad, seen) == Fit::kMeets) return bad;
    for (int i = 0; i < 64; ++i) {
      const long double middle = good + (bad - good) / 2;
      (try_rate(middle, seen) == Fit::kMeets ? good : bad) = middle;
    }
    return bad;
  };
  slowest_ = end_of(met, least);
  fastest_ = end_of(met, most - change_);
}

void WanderEnvelope::make_cells() {
  const long double span = fastest_ - slowest_;
  const long double wanted = change_ > 0 ? std::ceil(span * kFineness / change_) : kMostCells;
  const std::size_t room = std::clamp<std::size_t>(
      kMostPlaces / std::max<std::size_t>(places_.size(), 1), 1, kMostCells);
  const auto count =
      static_cast<std::size_t>(std::clamp(wanted, 1.0L, static_cast<long double>(room)));
  for (std::size_t i = 0; i < count; ++i) {
    const auto part = static_cast<long double>(count);
    const long double slow = slowest_ + span * static_cast<long double>(i) / part;
    const long double fast = slowest_ + span * static_cast<long double>(i + 1) / part + change_;
    Cell cell{static_cast<double>(slow), static_cast<double>(fast), places_};
    // Rounds outwards: a double may be slightly less or more than its long double.
    cell.slow = std::nextafter(cell.slow, 0.0);
    cell.fast = std::nextafter(cell.fast, 2e3);
    sweep(cell.places, cell.slow, cell.fast);
    cells_.push_back(std::move(cell));
  }
}

Range WanderEnvelope::Cell::at(long double source) const {
  Range range{-kInfinity, kInfinity};
  const auto after = std::ranges::lower_bound(places, source, {}, &Place::source);
  if (after != places.end()) {
    const long double apart = after->source - source;
    range = {after->low - fast * apart, after->high - slow * apart};
  }
  if (after != places.begin()) {
    const Place& before = *(after - 1);
    const long double apart = source - before.source;
    range.low = std::max(range.low, before.low + slow * apart);
    range.high = std::min(range.high, before.high + fast * apart);
  }
  return range;
}

Range WanderEnvelope::at(std::uint64_t source) const {
  Range all{kInfinity, -kInfinity};
  for (const Cell& cell : cells_) {
    const Range one = cell.at(difference(source, source_));
    all = {std::min(all.low, one.low), std::max(all.high, one.high)};
  }
  return {all.low + static_cast<long double>(target_),
          all.high + static_cast<long double>(target_)};
}

// Returns what a line of this rate touches that is as low, or as high, as the bounds allow.
WanderEnvelope::Corner WanderEnvelope::touched(bool low, long double rate) const {
  Corner corner{0, low ? -kInfinity : kInfinity};
  for (const Place& place : places_) {
    const Corner one{place.source, low ? place.low : place.high};
    const long double offset = one.offset(rate), best = corner.offset(rate);
    if (low ? offset > best : offset < best) corner = one;
  }
  return corner;
}

std::optional<Range> WanderEnvelope::line_rates() const {
  const auto room = [this](long double rate) {
    return touched(false, rate).offset(rate) - touched(true, rate).offset(rate);
  };
  const long double least = slowest_, most = fastest_ + change_;
  // The room between the lowest and the highest line of a rate is a concave function of the rate.
  const auto [grows, falls] = turn(least, most, [this](long double rate) {
    return touched(true, rate).source > touched(false, rate).source;
  });
  const long double best = room(grows) > room(falls) ? grows : falls;
  if (room(best) < -kRounding) return std::nullopt;
  const auto end_of = [&](long double end) {
    if (room(end) >= 0) return end;
    const auto [in, out] = turn(best, end, [&](long double rate) { return room(rate) >= 0; });
    const Corner low = touched(true, out), high = touched(false, out);
    return low.source == high.source
               ? in
               : std::clamp((high.target - low.target) / (high.source - low.source), least, most);
  };
  return Range{end_of(least), end_of(most)};
}

Range WanderEnvelope::lines_at(const Range& rates, std::uint64_t source) const {
  const long double x = difference(source, source_);
  const auto side = [&](bool low) {
    const auto [from, to] = turn(rates.low, rates.high, [&](long double rate) {
      const long double at = touched(low, rate).source;
      return low ? at > x : at < x;
    });
    const Corner a = touched(low, from), b = touched(low, to);
    // The line that is lowest, or highest, at x touches two bounds, or has a rate at an end.
    const long double rate = a.source != b.source ? (a.target - b.target) / (a.source - b.source)
                             : from == rates.low  ? from
                                                  : to;
    return (low ? b : a).offset(rate) + rate * x + static_cast<long double>(target_);
  };
  return {side(true), side(false)};
}

std::vector<std::uint64_t> WanderEnvelope::places() const {
  std::vector<std::uint64_t> all;
  for (const Place& place : places_)
    all.push_back(source_ + static_cast<std::uint64_t>(std::llround(place.source)));
  return all;
}

// Between two places, each side of a cell consists of two lines. So the side is furthest from the
// map at a place, where the two lines meet, or at `from` or `to`.
long double WanderEnvelope::distance(const ClockMap::Piece& map, std::uint64_t from,
                                     std::uint64_t to) const {
  long double most = 0;
  for (const Cell& cell : cells_) {
    const auto look = [&](std::uint64_t source) {
      const Range range = cell.at(difference(source, source_));
      const long double mapped = difference(map(source), target_);
      most = std::max({most, range.high - mapped, mapped - range.low});
    };
    look(from);
    look(to);
    const long double first = difference(from, source_), last = difference(to, source_);
    const long double turn = static_cast<long double>(cell.fast) - cell.slow;
    auto b = std::ranges::lower_bound(cell.places, first, {}, &Place::source);
    for (; b != cell.places.end(); ++b) {
      if (b != cell.places.begin() && turn > 0) {
        const Place& a = *(b - 1);
        const long double apart = b->source - a.source;
        for (const long double along : {(b->high - a.high - cell.slow * apart) / turn,
                                        (a.low - b->low + cell.fast * apart) / turn}) {
          if (!(along > 0 && along < apart)) continue;
          const auto meet = source_ + static_cast<std::uint64_t>(
                                          static_cast<std::int64_t>(std::floor(a.source + along)));
          for (const std::uint64_t source : {meet, meet + 1}) look(std::clamp(source, from, to));
        }
      }
      if (b->source > last) break;
      look(source_ + static_cast<std::uint64_t>(std::llround(b->source)));
    }
  }
  return most;
}

ClockMap::Piece piece_of(std::uint64_t from, std::uint64_t source, long double target,
                         long double rate) {
  ClockMap::Piece piece{from, source, clamped_time(std::round(target)), 0, 62};
  rate = std::max(rate, 0.0L);  // an ambiguous stretch must not run backwards
  while (piece.shift > 0 && rate * std::exp2(static_cast<long double>(piece.shift)) >= 0x1p63L)
    --piece.shift;
  piece.mult = clamped_time(std::round(rate * std::exp2(static_cast<long double>(piece.shift))));
  return piece;
}

}  // namespace trapline::clocks
