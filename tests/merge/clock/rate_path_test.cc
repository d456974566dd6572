// Relations of clocks whose rates change as far as is assumed, and no further: the truth is inside
// the error, at every time; and relations of clocks that were set or slewed further.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "backend_ftrace/base/duration.h"
#include "merge/clock/assumption.h"
#include "merge/clock/relation.h"
#include "tests/merge/clock/rate_path.h"

namespace trapline::clocks {
namespace {

using test::Random;
using test::RatePath;
using test::Shape;

struct RateCase {
  RatePath path;
  long double first, last;
  std::vector<ClockBound> bounds;
  Assumption assumption;
};

RateCase random_case(std::uint64_t seed) {
  Random random(seed);
  const long double length = random.scale(1e6L, 3e11L), first = random.real(1e9L, 1e15L);
  const double change = seed % 7 == 0 ? 0 : static_cast<double>(random.scale(0.1L, 2000));
  const bool cycles = seed % 5 == 0;
  const long double slowest =
      cycles ? random.real(0.2L, 2) : 1 + random.real(-500e-6L, 500e-6L - change * 1e-6L);
  RateCase made{make_path(random, static_cast<Shape>(seed / 8 % static_cast<int>(Shape::kLast)),
                          first, first + length, slowest, change * 1e-6L * 0.999L),
                first,
                first + length,
                {},
                {cycles ? kAnyRate : RateWindow{1 - 3e-3, 1 + 3e-3}, change}};
  const std::uint64_t rounds = seed % 4 == 0 ? 1 : seed % 4 == 1 ? 2 : 1 + random.below(20);
  const long double widest = random.scale(1, 1e5L);
  std::vector<long double> times;
  for (std::uint64_t i = 0; i < rounds; ++i)
    times.push_back(first + length * random.real(0.02L, 0.98L));
  std::ranges::sort(times);
  for (std::uint64_t i = 0; i < rounds; ++i)
    for (std::uint64_t k = 0, tries = 1 + random.below(6); k < tries; ++k)
      made.bounds.push_back(test::true_bound(random, made.path,
                                             times[i] + static_cast<long double>(k) * 2000,
                                             widest * random.scale(0.01L, 1), i));
  return made;
}

std::uint64_t seeds() {
  const char* text = std::getenv("TRAPLINE_RATE_PATHS");
  return text == nullptr ? 3'000 : std::strtoull(text, nullptr, 10);
}

TEST(RatePath, TheTruthIsInsideTheErrorOfEveryPathThatKeepsTheAssumption) {
  std::uint64_t fitted = 0;
  const std::uint64_t count = seeds();
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    const RateCase made = random_case(seed);
    const Interval interval{static_cast<std::uint64_t>(made.first),
                            static_cast<std::uint64_t>(made.last)};
    const auto relation = Relation::fit(made.bounds, made.assumption, interval);
    if (!relation) {
      ASSERT_THAT(relation.error().message, ::testing::HasSubstr("one side only")) << seed;
      continue;
    }
    ++fitted;
    Random random(seed);
    for (int i = 0; i <= 60; ++i) {
      const long double t =
          made.first + (made.last - made.first) *
                           (i <= 20 ? static_cast<long double>(i) / 20 : random.real(0, 1));
      const auto source = static_cast<std::uint64_t>(std::floor(t));
      const long double off = std::abs(made.path.off(relation->map()(source), t));
      ASSERT_LE(off, static_cast<long double>(relation->error_at(source)))
          << "seed " << seed << " at " << i;
      ASSERT_LE(relation->error_at(source), relation->error()) << "seed " << seed << " at " << i;
    }
  }
  EXPECT_GT(fitted, count * 9 / 10);
}

// Exact bounds, and the path that gets furthest: the error is not much more than it reaches.
TEST(RatePath, TheErrorBetweenTwoSeriesIsWhatTheAssumptionAllowsAndNoMore) {
  for (const double ppm : {1.0, 20.0, 100.0, 500.0}) {
    const long double first = 5e12L, apart = 1e9L;
    RatePath path(first, 7 * kSecond);
    path.run(first, 1 + 50e-6L);
    path.run(first + apart / 2, 1 + 50e-6L + ppm * 1e-6L);
    std::vector<ClockBound> bounds;
    for (const long double at : {first, first + apart}) {
      const std::uint64_t target = path.read(at);
      bounds.push_back(ClockBound::readings(static_cast<std::uint64_t>(at),
                                            static_cast<std::uint64_t>(at), target - 500,
                                            target + 500, bounds.size()));
    }
    const auto relation = Relation::fit(bounds, {RateWindow{1 - 1e-3, 1 + 1e-3}, ppm});
    ASSERT_TRUE(relation) << relation.error().message;
    const auto middle = static_cast<std::uint64_t>(first + apart / 2);
    const long double off = std::abs(path.off(relation->map()(middle), first + apart / 2));
    EXPECT_NEAR(static_cast<double>(off), ppm * 250, 502) << "a quarter of change and time";
    EXPECT_LE(off, static_cast<long double>(relation->error()));
    EXPECT_LT(static_cast<double>(relation->error()), 1.1 * ppm * 250 + 1200);
    EXPECT_LT(relation->error_at(bounds[0].source()), 520u) << "the series themselves";
  }
}

TEST(RatePath, OutsideOfAllSeriesTheErrorGrowsByTheChange) {
  std::vector<ClockBound> bounds;
  for (std::uint64_t i = 0; i <= 10; ++i)
    bounds.push_back(ClockBound::readings(50 * kSecond + i * kSecond, 50 * kSecond + i * kSecond,
                                          70 * kSecond + i * kSecond,
                                          70 * kSecond + i * kSecond + 100, i));
  const auto relation =
      Relation::fit(bounds, {kNanoseconds, 10}, Interval{40 * kSecond, 80 * kSecond});
  ASSERT_TRUE(relation);
  EXPECT_NEAR(static_cast<double>(relation->error_at(80 * kSecond)), 20e9 * 10e-6, 20e3);
  EXPECT_NEAR(static_cast<double>(relation->error_at(40 * kSecond)), 10e9 * 10e-6, 10e3);
  EXPECT_LT(relation->error_at(55 * kSecond), 2'700u);
}

// Slewed as far as a kernel slews (500 ppm, and 10 % by the tick), or set: told, with the time.
TEST(RatePath, AClockThatWasSlewedOrSetFurtherIsRefusedWithTheTime) {
  for (const long double by : {501e-6L, 0.1L, -0.1L, -501e-6L}) {
    RatePath path(1e12L, 5000 * kSecond);
    path.run(1e12L + 4.2e9L, 1 + by);
    path.run(1e12L + 4.9e9L, 1);
    std::vector<ClockBound> bounds;
    for (std::uint64_t i = 0; i < 10; ++i) {
      const std::uint64_t at = 1000 * kSecond + i * kSecond;
      const std::uint64_t target = path.read(static_cast<long double>(at));
      bounds.push_back(ClockBound::readings(at, at, target - 500, target + 500, i));
    }
    const auto refused = Relation::fit(bounds, {RateWindow{0.8, 1.2}, kSlewedPpm});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, ::testing::HasSubstr("1004.000000"));
    EXPECT_THAT(refused.error().message, ::testing::HasSubstr("1005.000000"));
    EXPECT_THAT(refused.error().message, ::testing::HasSubstr("--rate-change"));
  }
  for (const long double jump : {1e9L, -1e9L, 5e5L, -5e5L}) {
    RatePath path(1e12L, 5000 * kSecond);
    path.run(1e12L + 6.5e9L, 1, jump);
    std::vector<ClockBound> bounds, turned;
    for (std::uint64_t i = 0; i < 10; ++i) {
      const std::uint64_t at = 1000 * kSecond + i * kSecond;
      const std::uint64_t target = path.read(static_cast<long double>(at));
      bounds.push_back(ClockBound::readings(at, at, target - 500, target + 500, i));
      turned.push_back(ClockBound::readings(target, target, at - 500, at + 500, i));
    }
    const auto refused = Relation::fit(bounds, {kNanoseconds, kSlewedPpm});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, ::testing::HasSubstr("1006.000000"));
    EXPECT_THAT(refused.error().message, ::testing::HasSubstr("1007.000000"));
    // The other clock was set: its own times may come again.
    const auto other = Relation::fit(turned, {kNanoseconds, kSlewedPpm});
    ASSERT_FALSE(other);
    EXPECT_THAT(other.error().message, ::testing::HasSubstr("was set, slewed or suspended"));
  }
}

}  // namespace
}  // namespace trapline::clocks
