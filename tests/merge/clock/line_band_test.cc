// A line through bounds: the truth is always inside the error.
#include "merge/clock/line_band.h"

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

class LineBandTest : public ::testing::TestWithParam<std::tuple<double, unsigned, unsigned>> {};

TEST_P(LineBandTest, TheTrueRelationIsInsideTheError) {
  const auto [ppm, count, noise] = GetParam();
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    const Truth truth{ppm};
    std::vector<ClockBound> bounds;
    std::uint64_t at = kSource;
    for (unsigned i = 0; i < count; ++i) {
      const std::uint64_t width = random() % noise + 1;
      const std::uint64_t below = random() % width;
      ClockBound bound{at, truth(at) - below, truth(at) + (width - below)};
      if (count > 4 && random() % 3 == 0)
        bound.lo = ClockBound::kNoLow;
      else if (count > 4 && random() % 3 == 0)
        bound.hi = ClockBound::kNoHigh;
      bounds.push_back(bound);
      at += 1'000'000'000 + random() % 10'000;
    }
    const auto line = fit_line(bounds, kSource, at);
    ASSERT_TRUE(line) << line.error().message;
    for (std::uint64_t t = kSource; t <= at; t += 333'333'333)
      EXPECT_LE(distance(line->at(t), truth(t)), line->error) << "seed " << seed;
    // Rounding to whole nanoseconds may need one; nothing else does.
    EXPECT_LE(line->tolerance, 1u);
    EXPECT_LE(line->error, 6 * noise + 4) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LineBandTest,
                         ::testing::Combine(::testing::Values(0.0, 200.0, -200.0, 0.45),
                                            ::testing::Values(2U, 10U, 200U),
                                            ::testing::Values(500U, 30'000U)));

TEST(LineBandTest, MoreBoundsMakeTheErrorSmaller) {
  const Truth truth{3};
  std::vector<ClockBound> few, many;
  std::mt19937_64 random(1);
  for (unsigned i = 0; i <= 100; ++i) {
    const std::uint64_t at = kSource + i * 100'000'000;
    const std::uint64_t below = random() % 5000;
    many.push_back({at, truth(at) - below, truth(at) + (5000 - below)});
    if (i % 50 == 0) few.push_back(many.back());
  }
  const auto rough = fit_line(few, kSource, kSource + 10'000'000'000);
  const auto fine = fit_line(many, kSource, kSource + 10'000'000'000);
  ASSERT_TRUE(rough && fine);
  EXPECT_LT(fine->error, rough->error);
  EXPECT_NEAR(fine->rate, 1.000003, 1e-6);
}

TEST(LineBandTest, AClockThatIsBentCostsAsMuchAsItIsBent) {
  std::vector<ClockBound> bounds;
  for (unsigned i = 0; i <= 10; ++i) {
    const std::uint64_t at = kSource + i * 1'000'000'000ULL;
    const std::uint64_t bend = i == 5 ? 3000 : 0;
    bounds.push_back({at, Truth{}(at) + bend - 100, Truth{}(at) + bend + 100});
  }
  const auto line = fit_line(bounds, kSource, kSource + 10'000'000'000);
  ASSERT_TRUE(line);
  EXPECT_GE(line->tolerance, 1300u);
  EXPECT_LE(line->tolerance, 1500u);
  for (const ClockBound& bound : bounds)
    EXPECT_LE(distance(line->at(bound.source), bound.lo + 100), line->error);
}

TEST(LineBandTest, ARateFarFromOneIsFound) {
  // Ticks of a TSC at 2.1 GHz.
  std::vector<ClockBound> bounds;
  for (unsigned i = 0; i <= 10; ++i) {
    const std::uint64_t ns = i * 1'000'000'000ULL;
    bounds.push_back({22'649'492'922 + i * 2'100'000'000ULL, kTarget + ns - 50, kTarget + ns + 50});
  }
  const auto line = fit_line(bounds, bounds.front().source, bounds.back().source);
  ASSERT_TRUE(line);
  EXPECT_NEAR(line->rate, 1 / 2.1, 1e-7);
  EXPECT_LE(distance(line->at(bounds[5].source), kTarget + 5'000'000'000), line->error);
  EXPECT_LE(line->error, 200u);
}

TEST(LineBandTest, TooFewBoundsAreRefused) {
  EXPECT_FALSE(fit_line({}, 0, 1));
  const ClockBound one[] = {{100, 5, 9}};
  EXPECT_FALSE(fit_line(one, 0, 1000));
  const ClockBound above[] = {{100, ClockBound::kNoLow, 9}, {200, ClockBound::kNoLow, 109}};
  EXPECT_FALSE(fit_line(above, 0, 1000));
}

}  // namespace
}  // namespace trapline
