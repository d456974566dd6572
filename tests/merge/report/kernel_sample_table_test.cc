#include "merge/report/kernel_sample_table.h"

#include <gtest/gtest.h>

namespace trapline::test {
namespace {

// By hand, and as R's binom::binom.wilson has them.
TEST(SampledTimeTest, AnIntervalIsWilsons) {
  const SampledTime half = sampled_time(5, 10, 1'000'000);
  EXPECT_EQ(half.ns, 500'000u);
  EXPECT_NEAR(static_cast<double>(half.low_ns), 236'593, 1);
  EXPECT_NEAR(static_cast<double>(half.high_ns), 763'407, 1);
  const SampledTime none = sampled_time(0, 10, 1'000'000);
  EXPECT_EQ(none.low_ns, 0u);
  EXPECT_NEAR(static_cast<double>(none.high_ns), 277'533, 1);
  const SampledTime all = sampled_time(10, 10, 1'000'000);
  EXPECT_NEAR(static_cast<double>(all.low_ns), 722'467, 1);
  EXPECT_EQ(all.high_ns, 1'000'000u);
}

TEST(SampledTimeTest, ATimeOfNoSamplesIsNotKnown) {
  EXPECT_EQ(sampled_time(0, 0, 1000).high_ns, 0u);
  EXPECT_EQ(sampled_time(1, 1, 0).high_ns, 0u);
}

}  // namespace
}  // namespace trapline::test
