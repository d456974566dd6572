#include "merge/clock/relation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backend_ftrace/base/duration.h"
#include "merge/clock/assumption.h"
#include "tests/merge/clock/rate_path.h"

namespace trapline::clocks {
namespace {

// Returns target ticks per source tick, averaged over the interval.
double rate_of(const Relation& relation, std::uint64_t first, std::uint64_t last) {
  const std::uint64_t ticks = relation.map()(last) - relation.map()(first);
  return static_cast<double>(ticks) / static_cast<double>(last - first);
}

TEST(Relation, TwoHundredPpmOfDriftOverTenRecordsAreFoundToAPpm) {
  test::RatePath path(5e9L, 9'000 * kSecond);
  path.run(5e9L, 1 + 200e-6L);
  std::vector<ClockBound> bounds;
  for (std::uint64_t i = 0; i < 10; ++i) {
    const std::uint64_t at = 5 * kSecond + i * kSecond, target = path.read(at);
    bounds.push_back(ClockBound::readings(at, at, target - 500, target + 500, i));
  }
  const auto relation = Relation::fit(bounds, {kNanoseconds, kSteadyPpm});
  ASSERT_TRUE(relation);
  const auto [first, last] = relation->interval();
  EXPECT_NEAR((rate_of(*relation, first, last) - 1) * 1e6, 200, 1);
  EXPECT_LT(relation->error(), 1800u);
  EXPECT_EQ(relation->groups(), 10u);
  EXPECT_NEAR(static_cast<double>(relation->offset()), 9e12 - 5e9, 3000);
}

TEST(Relation, RatesThatNoClockHasAreRefusedWithTheRateAndItsLimit) {
  const auto message_of = [](std::uint64_t second_source, std::uint64_t second_target) {
    const std::vector<ClockBound> bounds{
        ClockBound::at(1'000, 5'000, 5'010),
        ClockBound::at(second_source, second_target, second_target + 10)};
    const auto relation = Relation::fit(bounds, {kNanoseconds, kSteadyPpm});
    return relation ? std::string() : relation.error().message;
  };
  EXPECT_THAT(message_of(1'000'001'000, 2'000'005'000), ::testing::HasSubstr("at most"));
  EXPECT_THAT(message_of(2'000'001'000, 1'000'005'000), ::testing::HasSubstr("at least"));
  EXPECT_THAT(message_of(1'000, 7'000), ::testing::HasSubstr("contradict each other at 0.000001"));
}

TEST(Relation, ItsIntervalReachesFromTheFirstBoundToTheLastUnlessOneIsToBeTakenAsGiven) {
  const ClockBound above{0, ClockBound::kNoLow, 1'000, 11'400, 0};
  const ClockBound below{5'000, 14'900, 0, ClockBound::kNoHigh, 1};
  const std::vector<ClockBound> bounds{below, above, ClockBound::at(9'000, 18'900, 19'100, 2)};
  const Assumption assumption{kNanoseconds, kSteadyPpm};
  const auto interval_of = [&](std::optional<Interval> given, Relation::Reach reach) {
    const auto relation = Relation::fit(bounds, assumption, given, reach);
    EXPECT_TRUE(relation);
    return std::pair(relation->interval().first, relation->interval().last);
  };
  const Interval given{2'000, 3'000};
  EXPECT_EQ(interval_of({}, Relation::Reach::kBoundsToo), std::pair(1'000ul, 9'000ul));
  EXPECT_EQ(interval_of({}, Relation::Reach::kIntervalOnly), std::pair(1'000ul, 9'000ul));
  EXPECT_EQ(interval_of(given, Relation::Reach::kBoundsToo), std::pair(1'000ul, 9'000ul));
  EXPECT_EQ(interval_of(given, Relation::Reach::kIntervalOnly), std::pair(2'000ul, 3'000ul));
}

TEST(Relation, AClockWhoseRateChangesIsFollowedAfterTheChange) {
  constexpr std::uint64_t kDay = 86'400'000'000'000;
  std::vector<ClockBound> bounds;
  for (std::uint64_t at = 0; at <= 2'000'000'000; at += 10'000'000) {
    const std::uint64_t bend = 1'000'000'000, gained = at > bend ? (at - bend) / 10'000 : 0;
    const std::uint64_t target = 5'000 + at + gained;  // 100 ppm faster from 1 s on
    bounds.push_back(ClockBound::at(kDay + at, target - 500, target + 500, 0));
  }
  const auto relation = Relation::fit(bounds, {kNanoseconds, kSlewedPpm});
  ASSERT_TRUE(relation) << relation.error().message;
  EXPECT_LT(relation->error(), 10'000u);  // one line would be 25 us off at the bend
}

TEST(Relation, OfASingleMomentTheRateIsTheMiddleOfThoseThatMayBe) {
  const std::vector<ClockBound> bounds{ClockBound::at(9'000, 18'900, 19'100)};
  const auto relation = Relation::fit(bounds, {kNanoseconds, kSteadyPpm}, Interval{9'000, 9'000},
                                      Relation::Reach::kIntervalOnly);
  ASSERT_TRUE(relation);
  EXPECT_NEAR(rate_of(*relation, 9'000, 9'000 + 1'000'000'000), 1, 1e-6);
  EXPECT_EQ(relation->offset(), 10'000);
}

TEST(Relation, AMapThatIsTakenHasTheErrorThatTheOwnBoundsGiveIt) {
  const auto fitted = [](std::uint64_t below, std::uint64_t above) {
    std::vector<ClockBound> bounds;
    for (const std::uint64_t at : {1'000u, 1'000'001'000u})
      bounds.push_back(ClockBound::at(at, at + 5'000 - below, at + 5'000 + above));
    return *Relation::fit(bounds, {kNanoseconds, kSteadyPpm});
  };
  const Relation narrow = fitted(5, 5);
  Relation wide = fitted(400, 100);
  const std::uint64_t before = wide.error();
  wide.take_map(narrow);
  EXPECT_EQ(wide.map()(1'000), narrow.map()(1'000));
  EXPECT_GT(wide.error(), before + 100);
}

TEST(Relation, NoRecordsAndOneSidedOnesAreErrors) {
  EXPECT_FALSE(Relation::fit({}, {kNanoseconds, 0}));
  ClockBound low{100, 200, 0, ClockBound::kNoHigh, 0};
  const auto relation = Relation::fit(std::vector<ClockBound>(5, low), {kNanoseconds, 0});
  ASSERT_FALSE(relation);
  EXPECT_THAT(relation.error().message, ::testing::HasSubstr("one side only"));
  // Beyond any clock: left out.
  const ClockBound absurd =
      ClockBound::readings(~std::uint64_t{0} - 5, ~std::uint64_t{0} - 5, ~std::uint64_t{0} - 9, 7);
  EXPECT_FALSE(Relation::fit(std::vector<ClockBound>(3, absurd), {kNanoseconds, 0}));
}

// Of readings that no clocks could have given: an error, or a relation that is in order.
TEST(Relation, ArbitraryBracketsNeverBreakIt) {
  std::mt19937_64 random(5);
  int fitted = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<ClockBound> brackets;
    for (int k = 0; k <= i % 12; ++k) {
      const unsigned shift = static_cast<unsigned>(random() % 64);
      brackets.push_back({random() >> shift, random() >> shift, random() >> shift,
                          random() >> shift, random() % 4});
    }
    const auto relation = Relation::fit(brackets, {kAnyRate, kSlewedPpm});
    if (!relation) {
      EXPECT_FALSE(relation.error().message.empty());
      continue;
    }
    ++fitted;
    EXPECT_GE(relation->groups(), 1u);
    const std::uint64_t at = random() >> 2;
    (void)relation->map()(at);
    (void)relation->error_at(at);
  }
  EXPECT_GT(fitted, 10);
}

TEST(ClockMap, TheIdentityAndAnOffsetKeepEveryTime) {
  EXPECT_TRUE(ClockMap().is_identity());
  EXPECT_EQ(ClockMap()(12345), 12345u);
  EXPECT_EQ(ClockMap::offset(-1'500'000)(2'000'000), 500'000u);
  EXPECT_EQ(ClockMap::offset(-1'500'000)(1'000'000), 0u);  // before the timeline's zero
  EXPECT_EQ(ClockMap::offset(7)(1'795'233'825'123'456'789), 1'795'233'825'123'456'796u);
  EXPECT_TRUE(ClockMap::offset(0).is_identity());
}

TEST(ClockMap, LaterTimesNeverBecomeEarlierInAPiece) {
  const ClockMap map({{0, 1000, 5000, (std::uint64_t{1} << 62) / 3, 62},
                      {1'000'000, 1'000'000, 338'000, std::uint64_t{1} << 62, 62}});
  std::uint64_t last = 0;
  for (std::uint64_t t = 1000; t < 1'100'000; t += 7) {
    const std::uint64_t now = map(t);
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_EQ(map(1'000'005), 338'005u);
}

}  // namespace
}  // namespace trapline::clocks
