// A line through bounds: the truth is always inside the error.
#include "merge/clock/clock_line.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace trapline {
namespace {

constexpr std::uint64_t kSource = 12'588'166'298'884;
constexpr std::uint64_t kTarget = 7'626'267'073;

struct Truth {
  double ppm = 0;
  [[nodiscard]] std::uint64_t operator()(std::uint64_t source) const {
    const auto along = static_cast<double>(source - kSource);
    return kTarget + (source - kSource) +
           static_cast<std::uint64_t>(std::llround(along * ppm * 1e-6));
  }
};

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

class ClockLineTest : public ::testing::TestWithParam<std::tuple<double, unsigned, unsigned>> {};

TEST_P(ClockLineTest, TheTrueRelationIsInsideTheError) {
  const auto [ppm, count, noise] = GetParam();
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    const Truth truth{ppm};
    std::vector<ClockBound> bounds;
    std::uint64_t at = kSource;
    for (unsigned i = 0; i < count; ++i) {
      const std::uint64_t width = random() % noise + 1;
      const std::uint64_t below = random() % width;
      ClockBound bound = ClockBound::at(at, truth(at) - below, truth(at) + (width - below));
      if (count > 4 && random() % 3 == 0)
        bound.at_least = ClockBound::kNoLow;
      else if (count > 4 && random() % 3 == 0)
        bound.at_most = ClockBound::kNoHigh;
      bounds.push_back(bound);
      at += 1'000'000'000 + random() % 10'000;
    }
    const auto line = ClockLine::fit(bounds, kSource, at);
    ASSERT_TRUE(line) << line.error().message;
    for (std::uint64_t t = kSource; t <= at; t += 333'333'333)
      EXPECT_LE(distance(line->at(t), truth(t)), line->error()) << "seed " << seed;
    EXPECT_EQ(line->tolerance(), 0u) << "seed " << seed;
    EXPECT_LE(line->error(), 6 * noise + 4) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ClockLineTest,
                         ::testing::Combine(::testing::Values(0.0, 200.0, -200.0, 0.45),
                                            ::testing::Values(2U, 10U, 200U),
                                            ::testing::Values(500U, 30'000U)));

TEST(ClockLineTest, MoreBoundsMakeTheErrorSmaller) {
  const Truth truth{3};
  std::vector<ClockBound> few, many;
  std::mt19937_64 random(1);
  for (unsigned i = 0; i <= 100; ++i) {
    const std::uint64_t at = kSource + i * 100'000'000;
    const std::uint64_t below = random() % 5000;
    many.push_back(ClockBound::at(at, truth(at) - below, truth(at) + (5000 - below)));
    if (i % 50 == 0) few.push_back(many.back());
  }
  const auto rough = ClockLine::fit(few, kSource, kSource + 10'000'000'000);
  const auto fine = ClockLine::fit(many, kSource, kSource + 10'000'000'000);
  ASSERT_TRUE(rough && fine);
  EXPECT_LT(fine->error(), rough->error());
  EXPECT_NEAR(fine->rate(), 1.000003, 1e-6);
}

// One bound of eleven is 3 us off the line of the others: some clock was slewed and slewed back.
// How far it was off between two bounds, 500 ppm of drift decide.
TEST(ClockLineTest, AClockThatIsSlewedCostsAllThatTheDriftAllows) {
  const auto bent = [](std::uint64_t bend) {
    std::vector<ClockBound> bounds;
    for (unsigned i = 0; i <= 10; ++i) {
      const std::uint64_t at = kSource + i * 1'000'000'000ULL;
      const std::uint64_t by = i == 5 ? bend : 0;
      bounds.push_back(ClockBound::at(at, Truth{}(at) + by - 100, Truth{}(at) + by + 100));
    }
    return ClockLine::fit(bounds, kSource, kSource + 10'000'000'000);
  };
  const auto line = bent(3000);
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_GE(line->tolerance(), 1300u);
  EXPECT_LE(line->tolerance(), 1500u);
  for (std::uint64_t ms = 0; ms <= 10'000; ++ms) {  // away at 500 ppm, and back in time
    const std::uint64_t at = kSource + ms * 1'000'000;
    const std::uint64_t near = ms % 1000 < 500 ? ms % 1000 : 1000 - ms % 1000;
    const std::uint64_t true_time = Truth{}(at) + (ms == 5000 ? 3000 : near * 500);
    ASSERT_LE(distance(line->at(at), true_time), line->error()) << ms;
  }
  EXPECT_LE(line->error(), 300'000u);
  const auto refused = bent(600'000);  // in a second, back in the next: no clock does that
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("contradict each other"), std::string::npos);
  EXPECT_NE(refused.error().message.find("12593.166298885"), std::string::npos)
      << refused.error().message;
}

TEST(ClockLineTest, ARateFarFromOneIsFound) {
  // Ticks of a TSC at 2.1 GHz.
  std::vector<ClockBound> bounds;
  for (unsigned i = 0; i <= 10; ++i) {
    const std::uint64_t ns = i * 1'000'000'000ULL;
    bounds.push_back(ClockBound::at(22'649'492'922 + i * 2'100'000'000ULL, kTarget + ns - 50,
                                    kTarget + ns + 50));
  }
  const auto line = ClockLine::fit(bounds, bounds.front().source(), bounds.back().source());
  ASSERT_TRUE(line);
  EXPECT_NEAR(line->rate(), 1 / 2.1, 1e-7);
  EXPECT_LE(distance(line->at(bounds[5].source()), kTarget + 5'000'000'000), line->error());
  EXPECT_LE(line->error(), 200u);
}

TEST(ClockLineTest, TooFewBoundsAreRefused) {
  EXPECT_FALSE(ClockLine::fit({}, 0, 1));
  const ClockBound one[] = {ClockBound::at(100, 5, 9)};
  EXPECT_FALSE(ClockLine::fit(one, 0, 1000));
  const ClockBound above[] = {ClockBound::at(100, ClockBound::kNoLow, 9),
                              ClockBound::at(200, ClockBound::kNoLow, 109)};
  EXPECT_FALSE(ClockLine::fit(above, 0, 1000));
}

}  // namespace
}  // namespace trapline
