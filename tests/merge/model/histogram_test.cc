#include "merge/model/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace trapline {
namespace {

std::uint64_t nearest_rank(std::vector<std::uint64_t> values, std::uint32_t per_mille) {
  std::sort(values.begin(), values.end());
  return values[(values.size() * per_mille + 999) / 1000 - 1];
}

TEST(HistogramTest, FewValuesAreExact) {
  Histogram histogram;
  for (const std::uint64_t value : {7u, 1u, 1000003u}) histogram.add(value);
  EXPECT_EQ(histogram.percentile(500), 7u);
  EXPECT_EQ(histogram.min(), 1u);
  EXPECT_EQ(histogram.mean(), 333337u);
}

TEST(HistogramTest, APercentileOfNothingIsNotKnown) {
  EXPECT_EQ(Histogram().percentile(500), std::nullopt);
  EXPECT_EQ(Histogram().min(), 0u);
}

TEST(HistogramTest, AMaximumIsNoPercentile) {
  Histogram histogram;
  const std::pair<std::uint32_t, std::uint64_t> kFewest[] = {
      {500, 1}, {900, 10}, {990, 100}, {999, 1000}};
  for (std::uint64_t count = 1; count <= 1000; ++count) {
    histogram.add(count);
    for (const auto& [per_mille, fewest] : kFewest) {
      const auto got = histogram.percentile(per_mille);
      EXPECT_EQ(got.has_value(), count >= fewest) << per_mille << " of " << count;
      if (per_mille > 500) {
        EXPECT_LT(got.value_or(0), histogram.max()) << per_mille << " of " << count;
      }
    }
  }
}

TEST(HistogramTest, PercentilesAreWithinOnePercentOfTheNearestRank) {
  std::mt19937_64 random(1);
  for (const double spread : {1.0, 3.0, 8.0}) {
    std::vector<std::uint64_t> values;
    Histogram histogram;
    std::lognormal_distribution<double> distribution(10, spread);
    for (int i = 0; i < 20000; ++i) {
      values.push_back(static_cast<std::uint64_t>(std::min(distribution(random), 1e18)));
      histogram.add(values.back());
    }
    for (const std::uint32_t per_mille : {1u, 500u, 900u, 990u, 999u}) {
      const double exact = static_cast<double>(nearest_rank(values, per_mille));
      const double got = static_cast<double>(histogram.percentile(per_mille).value());
      EXPECT_NEAR(got, exact, exact / 100) << per_mille << " of spread " << spread;
    }
  }
}

TEST(HistogramTest, TheLargestValuesHaveAPlace) {
  Histogram histogram;
  for (int i = 0; i < 100; ++i) histogram.add(~std::uint64_t{0});
  EXPECT_EQ(histogram.percentile(500), ~std::uint64_t{0});
}

TEST(HistogramTest, MergingIsAddingTheOthersValues) {
  for (const int first : {3, 100}) {
    for (const int second : {0, 5, 100}) {
      Histogram a, b, both;
      for (int i = 0; i < first; ++i) a.add(static_cast<std::uint64_t>(i) * 11);
      for (int i = 0; i < second; ++i) b.add(static_cast<std::uint64_t>(i) * 1000);
      for (int i = 0; i < first; ++i) both.add(static_cast<std::uint64_t>(i) * 11);
      for (int i = 0; i < second; ++i) both.add(static_cast<std::uint64_t>(i) * 1000);
      a.merge(b);
      EXPECT_EQ(a.count(), both.count());
      EXPECT_EQ(a.total(), both.total());
      EXPECT_EQ(a.max(), both.max());
      EXPECT_EQ(a.min(), both.min());
      EXPECT_EQ(a.percentile(900), both.percentile(900)) << first << " and " << second;
    }
  }
}

}  // namespace
}  // namespace trapline
