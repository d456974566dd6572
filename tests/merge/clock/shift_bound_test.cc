#include "merge/clock/shift_bound.h"

#include <gtest/gtest.h>

namespace trapline {
namespace {

constexpr ThreadId kVcpuThread{7};

class ShiftBoundTest : public testing::Test {
 protected:
  static Event at(std::uint64_t ns, ThreadId thread = kVcpuThread) {
    Event event;
    event.at = Timestamp(ns);
    event.thread = thread;
    return event;
  }
  void entry(std::uint64_t ns, ThreadId thread = kVcpuThread) {
    Event event = at(ns, thread);
    event.payload = KvmEntry{};
    bound_.on_host(event);
  }
  void exit(std::uint64_t ns, ThreadId thread = kVcpuThread) {
    Event event = at(ns, thread);
    event.payload = KvmExit{};
    bound_.on_host(event);
  }
  void guest(std::uint64_t ns, std::uint32_t cpu = 0) {
    Event event = at(ns, ThreadId{1});
    event.cpu = cpu;
    bound_.on_guest(event);
  }
  void lost() {
    Event event = at(0);
    event.payload = Lost{};
    bound_.on_host(event);
  }
  ShiftBound bound_{{{0, kVcpuThread}, {1, ThreadId{8}}}};
};

TEST_F(ShiftBoundTest, TheNarrowestRunBounds) {
  entry(1000);
  guest(1300), guest(1500), guest(1900);
  exit(2000);
  entry(3000);
  guest(3200), guest(3600);
  exit(4000);
  const auto found = bound_.found();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->events, 5);
  EXPECT_EQ(found->runs, 2);
  EXPECT_EQ(found->outside, 0);
  EXPECT_EQ(found->least, -200);
  EXPECT_EQ(found->most, 100);
}

TEST_F(ShiftBoundTest, AnEventInAnExitShowsHowFarOffItIs) {
  entry(1000);
  exit(2000);
  guest(2030), guest(2950);
  entry(3000);
  const auto found = bound_.found();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->outside, 2);
  EXPECT_EQ(found->off_ns, 50);
  EXPECT_EQ(found->farthest, Timestamp(2950));
  EXPECT_EQ(found->exit, Timestamp(2000));
  EXPECT_EQ(found->entry, Timestamp(3000));
}

TEST_F(ShiftBoundTest, AnExitOfTheFastPathHasNoEntry) {
  entry(1000);
  exit(2000);
  guest(2400), guest(2600);
  exit(3000);
  const auto found = bound_.found();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->outside, 0);
  EXPECT_EQ(found->least, -400);
  EXPECT_EQ(found->most, 400);
}

TEST_F(ShiftBoundTest, NothingIsKnownBeforeTheFirstAndAfterALoss) {
  guest(500);
  exit(1000);
  entry(2000);
  guest(2100);
  lost();
  guest(2500);
  exit(2900);
  EXPECT_FALSE(bound_.found());
}

TEST_F(ShiftBoundTest, EachCpuIsHeldAgainstItsOwnThread) {
  entry(1000);
  entry(1000, ThreadId{8});
  exit(2000);
  guest(2500, 1);
  guest(2600, 5);  // no thread of it is known
  exit(3000, ThreadId{8});
  const auto found = bound_.found();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->events, 1);
  EXPECT_EQ(found->outside, 0);
  EXPECT_EQ(found->most, 500);
}

}  // namespace
}  // namespace trapline
