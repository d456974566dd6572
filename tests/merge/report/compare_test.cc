// The statistics of a comparison, its bins and its conditions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "merge/report/compare.h"
#include "merge/report/compare_fail_if.h"

namespace trapline {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CompareStatsTest, StudentsDistributionIsThatOfTheTables) {
  EXPECT_NEAR(student_quantile(0.975, 1), 12.7062, 1e-3);
  EXPECT_NEAR(student_quantile(0.975, 10), 2.22814, 1e-4);
  EXPECT_NEAR(student_quantile(0.975, 120), 1.97993, 1e-4);
  EXPECT_NEAR(student_cdf(-2.22814, 10), 0.025, 1e-6);
}

TEST(CompareStatsTest, HolmMultipliesTheSmallestMostAndKeepsTheOrder) {
  const double p[] = {0.01, 0.04, 0.03, 0.005};
  EXPECT_THAT(holm(p), ElementsAre(DoubleNear(0.03, 1e-12), DoubleNear(0.06, 1e-12),
                                   DoubleNear(0.06, 1e-12), DoubleNear(0.02, 1e-12)));
}

TEST(CompareStatsTest, BlocksOfIndependentValuesAreShortAndThoseOfSlowOnesLong) {
  Random random(7);
  std::vector<double> independent, slow;
  double level = 0;
  for (int i = 0; i < 512; ++i) {
    const double noise = static_cast<double>(random.below(1000)) - 500;
    independent.push_back(noise);
    slow.push_back(level = 0.9 * level + noise);
  }
  EXPECT_LE(block_length(independent), 3u);
  EXPECT_GE(block_length(slow), 15u);
  EXPECT_LE(block_length(slow), 32u);
}

TEST(CompareStatsTest, ResamplesTakeAsManyBlocksAsThereAre) {
  const std::size_t blocks[] = {5, 5, 5};
  const Resamples resamples(blocks, 20, 3);
  ASSERT_EQ(resamples.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) {
    double sum = 0;
    for (const double weight : resamples.weights(i)) sum += weight;
    EXPECT_EQ(sum, 15);
  }
  EXPECT_EQ(resamples.degrees(), 2);
}

TEST(CompareBinsTest, BinsThatBecomeWiderLoseNothing) {
  TimeBins bins;
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    bins.add(i % 2, Timestamp(i * 1'000'000), i, {i, 0, 0, 0});
    if (i % 2 == 0) total += i;
  }
  bins.finish();
  const RowBins row = bins.take(0);
  EXPECT_LE(row.back().bin, TimeBins::kMostBins);
  std::uint64_t count = 0, sum = 0, counted = 0;
  for (const RowBin& bin : row) {
    count += bin.count;
    sum += bin.total;
    EXPECT_EQ(bin.total, bin.parts[0]);
    for (const BucketCount& one : bin.buckets) counted += one.count;
  }
  EXPECT_EQ(count, 5000u);
  EXPECT_EQ(counted, 5000u);
  EXPECT_EQ(sum, total);
}

// A recording of 10 s with rows "io" (around `io_ns`) and "msr"; other draws with another seed.
Recorded recording(std::uint64_t seed, std::uint64_t io_ns) {
  Recorded recorded;
  recorded.path = "a.dat";
  Random random(seed);
  TimeBins bins;
  for (std::uint64_t at = 0; at < 10'000'000'000; at += 1 + random.below(2'000'000)) {
    const std::size_t row = random.below(2);
    const std::uint64_t ns = (row == 0 ? io_ns : 2000) * (80 + random.below(40)) / 100;
    bins.add(row, Timestamp(at), ns, {ns, 0, 0, 0});
    bins.add_guest(Timestamp(at), 500'000);
    ++recorded.exits;
  }
  bins.finish();
  recorded.events = recorded.exits * 2;
  recorded.wall_ns = 10'000'000'000;
  recorded.bin_ns = bins.width();
  recorded.guest = bins.guest();
  recorded.rows["io"].bins = bins.take(0);
  recorded.rows["msr"].bins = bins.take(1);
  return recorded;
}

Comparison compared(std::uint64_t before_ns, std::uint64_t after_ns) {
  return compare({recording(1, before_ns)}, {recording(2, after_ns)}, {});
}

TEST(CompareTest, TheSameGuestTwiceHasNoChange) {
  EXPECT_EQ(compared(10'000, 10'000).real_changes(), 0u);
}

TEST(CompareTest, ASlowerDeviceIsFoundInItsRowAlone) {
  const Comparison comparison = compared(10'000, 12'000);
  ASSERT_EQ(comparison.rows.size(), 2u);
  const ComparedRow& io = comparison.rows[0];
  EXPECT_EQ(io.key, "io");
  for (const Metric metric : {Metric::kMean, Metric::kP50, Metric::kP99, Metric::kKernel}) {
    EXPECT_TRUE(io.of(metric).real);
    // A percentile is within 1 % of its sample on either side (docs/formats/report.md).
    const bool percentile = metric == Metric::kP50 || metric == Metric::kP99;
    EXPECT_NEAR(io.of(metric).change.change, 0.2, percentile ? 0.024 : 0.01);
    EXPECT_LT(io.of(metric).change.high - io.of(metric).change.low, percentile ? 0.048 : 0.02);
    EXPECT_GT(io.of(metric).change.high, io.of(metric).change.low);
  }
  EXPECT_FALSE(io.of(Metric::kRate).real);
  EXPECT_FALSE(io.of(Metric::kUser).tested);  // it has none
  for (const MetricChange& metric : comparison.rows[1].metrics) EXPECT_FALSE(metric.real);
}

TEST(CompareTest, ARowOfOneSideIsNewOrGone) {
  Recorded before = recording(1, 10'000);
  before.rows.erase("io");
  const Comparison comparison = compare({before}, {recording(2, 10'000)}, {});
  EXPECT_TRUE(comparison.rows[0].of(Metric::kRate).real);
  EXPECT_TRUE(std::isinf(comparison.rows[0].of(Metric::kRate).change.change));
  EXPECT_FALSE(comparison.rows[0].of(Metric::kMean).tested);
}

TEST(CompareTest, OtherEventsAndLossesAreRefusedWithAWayOut) {
  Recorded other = recording(2, 10'000);
  other.model.user_end = UserEnd::kIoctl;
  auto checked = check_comparable({recording(1, 10'000)}, {other}, false);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("sys_enter_ioctl"));
  Recorded lossy = recording(2, 10'000);
  lossy.lost = lossy.events / 10;
  checked = check_comparable({recording(1, 10'000)}, {lossy}, false);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("larger buffer"));
  EXPECT_TRUE(check_comparable({recording(1, 10'000)}, {recording(2, 10'000)}, false));
}

TEST(FailConditionTest, IsMetByTheBoundAndNotByTheValue) {
  const Comparison comparison = compared(10'000, 12'000);
  const double low = comparison.rows[0].of(Metric::kMean).change.low;
  const auto verdict = [&](double limit) {
    const auto condition = parse_fail_condition(fmt::format("mean(io) > {:+}%", limit * 100));
    return check_fail_condition(comparison, *condition)->failed.size();
  };
  EXPECT_EQ(verdict(low - 0.001), 1u);
  EXPECT_EQ(verdict(low + 0.001), 0u);  // although the value is above
}

TEST(FailConditionTest, WhatIsNoConditionIsRefused) {
  for (const char* text : {"", "p99(io)", "p98(io) > 1%", "p99() > 1%", "p99(io) = 1%",
                           "p99(io) > 1", "p99(io) > x%", "p99(io) > 1x%"}) {
    EXPECT_FALSE(parse_fail_condition(text)) << text;
  }
  const auto condition = parse_fail_condition("share( io / a(b) )<-2.5%");
  ASSERT_TRUE(condition);
  EXPECT_EQ(condition->row, "io / a(b)");
  EXPECT_FALSE(condition->above);
  EXPECT_DOUBLE_EQ(condition->limit, -0.025);
  const auto absent = check_fail_condition(compared(10'000, 10'000), *condition);
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().message, HasSubstr("io, msr"));
}

}  // namespace
}  // namespace trapline
