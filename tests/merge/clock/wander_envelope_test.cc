// The envelope against what its definition says of each pair of bounds, without sweeps, thinning or
// searches for rates.
#include "merge/clock/wander_envelope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "merge/clock/assumption.h"
#include "merge/clock/relation.h"
#include "tests/merge/clock/rate_path.h"

namespace trapline::clocks {
namespace {

using test::Random;
using test::RatePath;

constexpr long double kInfinity = std::numeric_limits<long double>::infinity();
constexpr long double kRounding = 1e-3L;  // that a bound may be missed by
constexpr std::uint64_t kSource = 1'000'000'000'000, kTarget = 7'000'000'000'000;

// What one bound says of one side, relative to kSource and kTarget.
struct Side {
  long double x, y;
  bool low;
};

std::vector<Side> sides_of(const std::vector<ClockBound>& bounds) {
  const auto relative = [](std::uint64_t a, std::uint64_t b) {
    return static_cast<long double>(static_cast<std::int64_t>(a - b));
  };
  std::vector<Side> sides;
  for (const ClockBound& b : bounds) {
    if (b.has_low())
      sides.push_back({relative(b.low_source, kSource), relative(b.at_least, kTarget), true});
    if (b.has_high())
      sides.push_back({relative(b.high_source, kSource), relative(b.at_most, kTarget), false});
  }
  return sides;
}

// Where a clock can be at x that never runs slower than `slow` nor faster than `fast`.
Range range_at(const std::vector<Side>& sides, long double slow, long double fast, long double x) {
  Range range{-kInfinity, kInfinity};
  for (const Side& side : sides) {
    const long double along = x - side.x;
    if (side.low)
      range.low = std::max(range.low, side.y + (along > 0 ? slow : fast) * along);
    else
      range.high = std::min(range.high, side.y + (along > 0 ? fast : slow) * along);
  }
  return range;
}

struct Rates {
  long double slowest, fastest, change;
};

// Each pair of a lower and an upper side limits the rate.
Rates rates_of(const std::vector<Side>& sides, const Assumption& assumption) {
  const long double least = assumption.rates.least, most = assumption.rates.most;
  long double too_slow = -kInfinity, too_fast = kInfinity;
  for (const Side& a : sides) {
    for (const Side& b : sides) {
      if (a.low == b.low || a.x >= b.x) continue;
      const long double rise = b.y - a.y;
      if (b.low)
        too_slow = std::max(too_slow, (rise - kRounding) / (b.x - a.x));
      else
        too_fast = std::min(too_fast, (rise + kRounding) / (b.x - a.x));
    }
  }
  long double scale = most;
  if (most > 2 * least) scale = std::min(most, 1.001L * std::min(too_fast, most));
  const long double change =
      std::min(scale * static_cast<long double>(assumption.change_ppm) * 1e-6L, most - least);
  return {std::max(least, too_slow - change), std::min(most - change, too_fast), change};
}

// The union over the rates, in cells as wide as the header says.
Range union_at(const std::vector<Side>& sides, const Rates& rates, long double x) {
  const long double span = rates.fastest - rates.slowest;
  const int cells = rates.change > 0
                        ? std::clamp(static_cast<int>(std::ceil(span * 16 / rates.change)), 1, 64)
                        : 64;
  Range all{kInfinity, -kInfinity};
  for (int i = 0; i < cells; ++i) {
    const auto one = range_at(sides, rates.slowest + span * i / cells,
                              rates.slowest + span * (i + 1) / cells + rates.change, x);
    all = {std::min(all.low, one.low), std::max(all.high, one.high)};
  }
  return all;
}

struct EnvelopeCase {
  std::vector<ClockBound> bounds;
  Assumption assumption;
  std::uint64_t length = 0;
};

// Bounds of a clock that keeps the assumption, some of one side; of a second, or of microseconds.
EnvelopeCase random_case(Random& random) {
  EnvelopeCase made;
  const bool brief = random.one_in(2);
  made.length = brief ? 3'000 : 1'000'000'000;
  made.assumption = {brief ? RateWindow{0.6, 1.1} : kNanoseconds,
                     static_cast<double>(brief ? random.scale(2e4L, 4e5L) : random.scale(1, 300))};
  if (random.one_in(4)) made.assumption.rates = kAnyRate;
  const long double part = static_cast<long double>(made.assumption.change_ppm) * 0.9e-6L;
  const long double slowest = brief ? random.real(0.65L, 0.8L) : 1 + random.real(-200e-6L, 200e-6L);
  RatePath path(kSource, kTarget);
  path.run(kSource, slowest);
  for (std::uint64_t i = 0, n = random.below(4); i < n; ++i)
    path.run(
        kSource + static_cast<long double>(made.length) * (static_cast<long double>(i) + 1) / 5,
        slowest * (1 + part * random.real(0, 1)));
  const std::uint64_t widest = brief ? 60 : 1 + static_cast<std::uint64_t>(random.scale(1, 1e5L));
  for (std::uint64_t i = 0, n = 2 + random.below(12); i < n; ++i) {
    const std::uint64_t source = kSource + random.below(made.length);
    const std::uint64_t target = path.read(static_cast<long double>(source));
    ClockBound bound =
        ClockBound::at(source, target - random.below(widest), target + 1 + random.below(widest), i);
    if (i > 1 && random.one_in(3))
      bound.at_least = ClockBound::kNoLow;
    else if (i > 1 && random.one_in(3))
      bound.at_most = ClockBound::kNoHigh;
    if (random.one_in(3))
      bound.high_source -= std::min<std::uint64_t>(bound.high_source - kSource, 5);
    made.bounds.push_back(bound);
  }
  return made;
}

TEST(WanderEnvelope, IsWhatEachPairOfBoundsLeaves) {
  Random random(11);
  for (int i = 0; i < 2000; ++i) {
    const EnvelopeCase made = random_case(random);
    const WanderEnvelope envelope(made.bounds, made.assumption);
    const std::vector<Side> sides = sides_of(made.bounds);
    const Rates rates = rates_of(sides, made.assumption);
    ASSERT_FALSE(envelope.contradiction()) << i;
    EXPECT_NEAR(envelope.rates().least, static_cast<double>(rates.slowest), 1e-9) << i;
    EXPECT_NEAR(envelope.rates().most, static_cast<double>(rates.fastest + rates.change), 1e-9)
        << i;
    for (int k = -5; k <= 25; ++k) {
      const auto source = static_cast<std::uint64_t>(
          static_cast<std::int64_t>(kSource) + static_cast<std::int64_t>(made.length) * k / 20);
      const auto x = static_cast<long double>(static_cast<std::int64_t>(source - kSource));
      const auto expected = union_at(sides, rates, x), got = envelope.at(source);
      ASSERT_NEAR(static_cast<double>(got.low - kTarget), static_cast<double>(expected.low), 0.01)
          << i << " at " << k;
      ASSERT_NEAR(static_cast<double>(got.high - kTarget), static_cast<double>(expected.high), 0.01)
          << i << " at " << k;
    }
  }
}

TEST(WanderEnvelope, IsFurthestFromAMapWhereLookingEverywhereFindsIt) {
  Random random(12);
  int bent = 0;
  for (int i = 0; i < 300; ++i) {
    EnvelopeCase made = random_case(random);
    if (made.length > 3'000) continue;
    const WanderEnvelope envelope(made.bounds, made.assumption);
    ASSERT_FALSE(envelope.contradiction()) << i;
    const std::uint64_t first = kSource - 100 + random.below(1'500);
    const std::uint64_t last = first + random.below(3'000);
    const auto rates = envelope.rates();
    const ClockMap::Piece map =
        piece_of(0, first, envelope.at(first).middle(), random.real(rates.least, rates.most));
    const auto off = [&](std::uint64_t source) {
      const auto [low, high] = envelope.at(source);
      const auto mapped = static_cast<long double>(map(source));
      return std::max(high - mapped, mapped - low);
    };
    long double most = 0;
    for (std::uint64_t at = first; at <= last; ++at) most = std::max(most, off(at));
    const auto places = envelope.places();
    bent += most > std::max(off(first), off(last)) + 1 &&
            std::ranges::none_of(
                places, [&](auto at) { return at >= first && at <= last && off(at) > most - 1; });
    // The map's own rounding may put it a little later or earlier.
    EXPECT_LE(envelope.distance(map, first, last), most + 1e-3L) << i;
    EXPECT_GT(envelope.distance(map, first, last), most - 1) << i;
  }
  EXPECT_GT(bent, 5) << "some are furthest between two places";
}

TEST(WanderEnvelope, BoundsThatOthersImplyAreNoPlaces) {
  std::vector<ClockBound> bounds;
  for (std::uint64_t i = 0; i <= 20; ++i) {
    const std::uint64_t wide = i % 10 == 0 ? 10 : 5'000 + i;
    const std::uint64_t source = kSource + i * 1'000, target = kTarget + i * 1'000;
    bounds.push_back(ClockBound::at(source, target - wide, target + wide, i));
  }
  const WanderEnvelope envelope(bounds, {kNanoseconds, 10});
  EXPECT_EQ(envelope.places(),
            (std::vector<std::uint64_t>{kSource, kSource + 10'000, kSource + 20'000}));
}

// A contradiction names two bounds that show the rate, and rates that the assumption excludes.
TEST(WanderEnvelope, AContradictionIsShownByTwoBounds) {
  Random random(13);
  int both = 0, fast_alone = 0, slow_alone = 0;
  for (int i = 0; i < 2'000; ++i) {
    EnvelopeCase made = random_case(random);
    for (int k = 0; k < 2; ++k) {
      ClockBound& bound = made.bounds[random.below(made.bounds.size())];
      const std::uint64_t by = random.below(made.length / 2);
      const bool later = random.one_in(2);
      if (bound.has_low()) bound.at_least += later ? by : -by;
      if (bound.has_high()) bound.at_most += later ? by : -by;
    }
    const WanderEnvelope envelope(made.bounds, made.assumption);
    const std::vector<Side> sides = sides_of(made.bounds);
    if (!envelope.contradiction()) continue;
    const auto& seen = *envelope.contradiction();
    const auto shown = [&](const WanderEnvelope::Stretch& told, bool fast) {
      for (const Side& a : sides)
        for (const Side& b : sides)
          if (a.low != fast && b.low == fast && a.x == told.first - kSource &&
              b.x == told.last - kSource && std::abs((b.y - a.y) / (b.x - a.x) - told.rate) < 1e-9L)
            return true;
      return false;
    };
    EXPECT_TRUE(!seen.fast || shown(*seen.fast, true)) << i;
    EXPECT_TRUE(!seen.slow || shown(*seen.slow, false)) << i;
    const Rates rates = rates_of(sides, made.assumption);
    if (seen.at_once) continue;
    if (seen.fast && seen.slow) {
      ++both;
      EXPECT_GT(seen.fast->rate - seen.slow->rate, rates.change - 1e-12L) << i;
    } else if (seen.fast) {
      ++fast_alone;
      EXPECT_GT(seen.fast->rate, made.assumption.rates.most) << i;
    } else {
      ++slow_alone;
      ASSERT_TRUE(seen.slow) << i;
      EXPECT_LT(seen.slow->rate, made.assumption.rates.least) << i;
    }
  }
  EXPECT_GT(both, 100);
  EXPECT_GT(fast_alone, 20);
  EXPECT_GT(slow_alone, 20);
}

TEST(WanderEnvelope, ARelationsErrorIsTheGreatestInItsIntervalAndNoMore) {
  Random random(14);
  for (int i = 0; i < 150; ++i) {
    const EnvelopeCase made = random_case(random);
    if (made.length > 3'000) continue;
    const std::uint64_t first = kSource + random.below(2'000), last = first + random.below(1'500);
    auto relation = Relation::fit(
        made.bounds, made.assumption, Interval{first, last},
        random.one_in(2) ? Relation::Reach::kBoundsToo : Relation::Reach::kIntervalOnly);
    ASSERT_TRUE(relation) << i;
    const auto greatest = [&] {
      std::uint64_t most = 0;
      for (auto at = relation->interval().first; at <= relation->interval().last; ++at)
        most = std::max(most, relation->error_at(at));
      return most;
    };
    EXPECT_GE(relation->error(), greatest()) << i;
    EXPECT_LE(relation->error(), greatest() + 2) << i;
    // Of a wider interval, where the error is larger.
    const auto other = Relation::fit(made.bounds, made.assumption,
                                     Interval{kSource - 2'000, kSource + made.length + 2'000});
    ASSERT_TRUE(other) << i;
    relation->take_map(*other);
    EXPECT_GE(relation->error(), greatest()) << i;
    EXPECT_LE(relation->error(), greatest() + 2) << i;
  }
}

struct Line {
  long double rate, offset;
};

// The corners: where two sides, or a side and an end of the rates, meet within all others.
std::vector<Line> corners_of(const std::vector<Side>& sides, RateWindow rates) {
  constexpr long double kSlack = 1e-6L;
  std::vector<Line> lines, corners;
  for (const Side& a : sides) {
    for (const long double rate : {rates.least, rates.most})
      lines.push_back({rate, a.y - rate * a.x});
    for (const Side& b : sides) {
      if (a.x >= b.x) continue;
      const long double rate = (b.y - a.y) / (b.x - a.x);
      lines.push_back({rate, a.y - rate * a.x});
    }
  }
  for (const Line& line : lines) {
    if (line.rate < rates.least || line.rate > rates.most) continue;
    const bool meets = std::ranges::all_of(sides, [&](const Side& side) {
      const long double above = line.offset + line.rate * side.x - side.y;
      return (side.low ? above : -above) >= -kSlack;
    });
    if (meets) corners.push_back(line);
  }
  return corners;
}

// The lines that fit all bounds, against all crossings of the bounds' sides, tried one by one.
TEST(EnvelopeLines, AreBetweenTheCornersThatTryingAllFinds) {
  constexpr RateWindow kRates{0.5, 2.0};
  std::mt19937_64 random(3);
  int some = 0, ended_by_brackets = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto up_to = [&](std::uint64_t most) { return random() % (most + 1); };
    const long double rate = 0.4L + static_cast<long double>(up_to(170)) / 100;
    std::vector<ClockBound> bounds;
    for (std::uint64_t k = 0, n = 2 + up_to(8); k < n; ++k) {
      const std::uint64_t x = 1000 + up_to(3000);
      const std::uint64_t truth = kTarget + static_cast<std::uint64_t>(std::llround(rate * x));
      bounds.push_back(ClockBound::at(kSource + x, truth - up_to(150), truth + up_to(150)));
    }
    const WanderEnvelope envelope(bounds, {kRates, 0});
    const auto rates = envelope.contradiction() ? std::nullopt : envelope.line_rates();
    const std::vector<Line> corners = corners_of(sides_of(bounds), kRates);
    ASSERT_EQ(rates.has_value(), !corners.empty()) << i;
    if (!rates) continue;
    ++some;
    const auto [slowest, fastest] = std::ranges::minmax(corners, {}, &Line::rate);
    EXPECT_NEAR(static_cast<double>(rates->low), static_cast<double>(slowest.rate), 1e-6) << i;
    EXPECT_NEAR(static_cast<double>(rates->high), static_cast<double>(fastest.rate), 1e-6) << i;
    ended_by_brackets += slowest.rate > kRates.least && fastest.rate < kRates.most ? 1 : 0;
    for (const std::uint64_t x : {0u, 1500u, 2500u, 9000u}) {
      const auto at = [x](const Line& line) { return line.offset + line.rate * x; };
      const auto [low, high] = std::ranges::minmax(corners, {}, at);
      const Range lines = envelope.lines_at(*rates, kSource + x);
      EXPECT_NEAR(static_cast<double>(lines.low - kTarget), static_cast<double>(at(low)), 0.01)
          << i;
      EXPECT_NEAR(static_cast<double>(lines.high - kTarget), static_cast<double>(at(high)), 0.01)
          << i;
    }
  }
  EXPECT_GT(some, 1000);
  EXPECT_GT(ended_by_brackets, 500);
}

TEST(EnvelopeLines, APieceDoesNotRunBackwards) {
  const ClockMap map({piece_of(0, 100, 5000, -2)});
  EXPECT_EQ(map(100), 5000u);
  EXPECT_EQ(map(900), 5000u);
}

TEST(EnvelopeLines, ATargetsTimeIsReachedAtItsSource) {
  std::vector<ClockBound> bounds;
  for (std::uint64_t i = 1; i < 20; ++i)
    bounds.push_back(
        ClockBound::readings(1000 * i, 1000 * i + 10, 7000 + 1000 * i + 5, 7000 + 1000 * i + 5, i));
  const auto relation = Relation::fit(bounds, {kNanoseconds, 0});
  ASSERT_TRUE(relation);
  EXPECT_EQ(relation->interval().last, 19'011u);
  for (const std::uint64_t at : {2000u, 5500u, 15'000u}) {
    const std::uint64_t target = relation->map()(at);
    EXPECT_GE(relation->map()(relation->map().source_of(target)), target);
    EXPECT_LT(relation->map()(relation->map().source_of(target) - 1), target);
  }
}

}  // namespace
}  // namespace trapline::clocks
