#include "merge/live/top.h"

#include <gtest/gtest.h>

namespace trapline::live {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

Frame frame_of(std::uint64_t exits) {
  Frame frame;
  frame.vcpus.resize(1);
  frame.vcpus[0].totals.exits = exits;
  return frame;
}

TEST(NoExitNotice, IsDueOnceAfterTwoIntervals) {
  NoExitNotice notice(5 * kSecond, 100);
  EXPECT_FALSE(notice.add(frame_of(0), 5 * kSecond));
  EXPECT_FALSE(notice.is_due(99 + 10 * kSecond));
  EXPECT_TRUE(notice.is_due(100 + 10 * kSecond));
  EXPECT_FALSE(notice.is_due(60 * kSecond));
}

TEST(NoExitNotice, ExitsBeginTheTimeAnewAndTakeWhatWasToldBack) {
  NoExitNotice notice(2 * kSecond, 0);
  EXPECT_FALSE(notice.add(frame_of(1), kSecond));
  EXPECT_FALSE(notice.is_due(4 * kSecond));
  EXPECT_TRUE(notice.is_due(5 * kSecond));
  EXPECT_FALSE(notice.add(frame_of(0), 6 * kSecond));
  EXPECT_TRUE(notice.add(frame_of(1), 7 * kSecond));
  EXPECT_FALSE(notice.add(frame_of(1), 8 * kSecond));
}

// Its frames come every quarter of a second, all at once.
TEST(NoExitNotice, AShortIntervalWaitsAsLongAsASessionMayBeSeenLate) {
  NoExitNotice notice(1'000'000, 0);
  EXPECT_FALSE(notice.is_due(NoExitNotice::kShortest - 1));
  EXPECT_TRUE(notice.is_due(NoExitNotice::kShortest));
}

TEST(NoExitNotice, AnEndlessIntervalIsNeverDue) {
  NoExitNotice notice(~std::uint64_t{0}, 0);
  EXPECT_FALSE(notice.is_due(~std::uint64_t{0} - 1));
}

}  // namespace
}  // namespace trapline::live
