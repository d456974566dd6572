#include "merge/report/units.h"

#include <gtest/gtest.h>

namespace trapline {
namespace {

TEST(UnitsTest, NumbersHaveThreeDigitsAndAUnitThatSuits) {
  EXPECT_EQ(duration_text(999, false), "999 ns");
  EXPECT_EQ(duration_text(132'000, false), "132 µs");
  EXPECT_EQ(duration_text(1'234'567'890, false), "1.23 s");
  EXPECT_EQ(duration_text(5'000, true), "5.00 kcyc");
  EXPECT_EQ(duration_text(9'996, false), "10.0 µs");
  EXPECT_EQ(duration_text(999'499, false), "999 µs");
  EXPECT_EQ(duration_text(999'500, false), "1.00 ms");
  EXPECT_EQ(duration_text(1'234'000'000'000, false), "1,234 s");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(percent_text(1, 0), "-");
  EXPECT_EQ(percent_text(0, 10'000), "0.0%");
  EXPECT_EQ(percent_text(1, 10'000), "<0.1%");
  EXPECT_EQ(percent_text(5, 10'000), "0.1%");
  EXPECT_EQ(time_text(12'000'000'345, false), "12.000000345");
}

}  // namespace
}  // namespace trapline
