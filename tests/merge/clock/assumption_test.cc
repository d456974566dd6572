#include "merge/clock/assumption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trapline::clocks {
namespace {

using ::testing::HasSubstr;
using Notes = std::vector<NotedAdjustment>;
using Kernels = std::vector<Notes>;

ClockAdjustment at_ppm(std::int64_t ppm) {
  ClockAdjustment adjustment;
  adjustment.frequency = ppm << 16;
  return adjustment;
}

TEST(ClockAdjustment, EachWayOfAdjustingIsARate) {
  ClockAdjustment adjustment;
  EXPECT_EQ(adjustment.ppm(), 0);
  adjustment.frequency = -(3 << 16);
  EXPECT_EQ(adjustment.ppm(), -3);
  adjustment.tick = 10'001;  // a microsecond in a hundredth of a second
  EXPECT_EQ(adjustment.ppm(), 97);
  adjustment = {};
  adjustment.offset = 64'000;  // 64 us, of which a sixteenth goes in a second
  adjustment.constant = 2;
  EXPECT_EQ(adjustment.ppm(), 4);
  adjustment = {};
  adjustment.single = -20'000;
  EXPECT_EQ(adjustment.ppm(), -500) << "adjtime slews no faster";
}

TEST(ClockAdjustment, ItsTextIsReadOrNothing) {
  EXPECT_EQ(parse_adjustment("64:-5:9999:7:6:-3"), (ClockAdjustment{64, -5, 9999, 7, 6, -3}));
  for (const char* damaged : {"", "1:2:3:4:5", "1:2:3:4:5:", "1:2:3:4:5:6:7", "a:2:3:4:5:6",
                              "1:2:3:4:5:99999999999999999999"})
    EXPECT_FALSE(parse_adjustment(damaged)) << damaged;
}

TEST(AssumedChange, WithoutNotesAKernelMaySlew) {
  EXPECT_EQ(assumed_change({}, std::nullopt), kSteadyPpm);
  const Notes none, one{{5, at_ppm(0)}}, half{{5, at_ppm(0)}, {9, std::nullopt}};
  for (const Notes& notes : {none, one, half}) {
    EXPECT_EQ(assumed_change(Kernels{notes}, std::nullopt), kSlewedPpm);
    EXPECT_EQ(assumed_change(Kernels{notes}, 7.0), 7);
  }
}

TEST(AssumedChange, NotesOfBothKernelsAddUp) {
  const Notes host{{5, at_ppm(2)}, {9, at_ppm(-3)}}, guest{{5, at_ppm(40)}, {9, at_ppm(30)}};
  EXPECT_EQ(assumed_change(Kernels{host}, std::nullopt), kSteadyPpm + 5);
  EXPECT_EQ(assumed_change(Kernels{host, guest}, std::nullopt), kSteadyPpm + 15);
  EXPECT_EQ(assumed_change(Kernels{host, Notes()}, std::nullopt), kSlewedPpm);
  // More than is assumed without notes is what the notes say.
  const Notes far{{5, at_ppm(0)}, {9, at_ppm(80)}};
  EXPECT_EQ(assumed_change(Kernels{far, far}, std::nullopt), kSteadyPpm + 160);
  // What one kernel's notes refute is refused, whether or not the other one has notes.
  const Notes slewed{{5, at_ppm(0)}, {9, at_ppm(400)}};
  EXPECT_FALSE(assumed_change(Kernels{Notes(), slewed}, std::nullopt));
}

TEST(AssumedChange, MoreThanIsAssumedIsRefusedWithTheTime) {
  const Notes slewed{{1'000'000'000, at_ppm(0)}, {2'000'000'000, at_ppm(400)}};
  const auto refused = assumed_change(Kernels{slewed}, std::nullopt);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("between 1.000000000 and 2.000000000"));
  EXPECT_THAT(refused.error().message, HasSubstr("400.0 ppm"));
  EXPECT_EQ(assumed_change(Kernels{slewed}, 500.0), 500);
  EXPECT_FALSE(assumed_change(Kernels{slewed}, 300.0)) << "the user's word is refuted";
}

}  // namespace
}  // namespace trapline::clocks
