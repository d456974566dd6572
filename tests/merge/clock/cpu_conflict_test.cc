#include "merge/clock/cpu_conflict.h"

#include <gtest/gtest.h>

namespace trapline {
namespace {

constexpr std::uint16_t kA = 0, kB = 1;

class CpuConflictsTest : public ::testing::Test {
 protected:
  void event(std::uint16_t source, std::uint64_t us, int thread, Payload payload = Other{},
             std::uint32_t cpu = 0) {
    Event event;
    event.at = Timestamp(us * 1000);
    event.cpu = cpu;
    event.thread = ThreadId{thread};
    event.source = source;
    event.payload = payload;
    conflicts_.on(event);
  }
  void switched(std::uint16_t source, std::uint64_t us, int from, int to) {
    event(source, us, from, SchedSwitch{ThreadId{from}, ThreadId{to}, false, ""});
  }
  CpuConflicts conflicts_{{{true, 0}, {true, 0}}};
};

TEST_F(CpuConflictsTest, TwoThreadsOnOneCpuAtOneTimeAreFoundWithTheirEvents) {
  event(kA, 1000, 10);
  event(kB, 2000, 20);
  event(kA, 3000, 10);
  const auto found = conflicts_.first();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->from.thread, ThreadId{10});
  EXPECT_EQ(found->from.at.ns(), 1'000'000u);
  EXPECT_EQ(found->to.at.ns(), 3'000'000u);
  EXPECT_EQ(found->at.thread, ThreadId{20});
  EXPECT_EQ(found->at.at.ns(), 2'000'000u);
}

TEST_F(CpuConflictsTest, ThreadsThatTakeTurnsDoNotConflict) {
  event(kA, 1000, 10);
  switched(kA, 1500, 10, 20);
  event(kB, 2000, 20);
  event(kA, 2100, 20);
  switched(kA, 2500, 20, 10);
  event(kB, 2600, 10);
  event(kA, 3000, 10);
  EXPECT_FALSE(conflicts_.first());
}

// The switch was stamped, the thread is still the CPU's: its last events come after it.
TEST_F(CpuConflictsTest, EventsBesideASwitchProveNothing) {
  event(kA, 1000, 10);
  switched(kA, 1500, 10, 20);
  event(kB, 1600, 10);
  event(kA, 1700, 20);
  EXPECT_FALSE(conflicts_.first());
}

// arm64 saves a vCPU's timers once its switch is written: the recording is no filtered one.
TEST_F(CpuConflictsTest, LastEventsOfTheThreadThatLeftJoinTheSwitch) {
  for (std::uint64_t us = 100; us < 900; us += 100) {
    event(kA, us, 10);
    switched(kA, us + 10, 10, 30);
    event(kA, us + 11, 10);
    switched(kA, us + 50, 30, 10);
  }
  event(kA, 1000, 10);
  event(kB, 2000, 20);
  event(kA, 3000, 10);
  EXPECT_TRUE(conflicts_.first());
}

TEST_F(CpuConflictsTest, AnotherCpuIsAnotherPlace) {
  event(kA, 1000, 10);
  event(kB, 2000, 20, Other{}, 1);
  event(kA, 3000, 10);
  EXPECT_FALSE(conflicts_.first());
}

TEST_F(CpuConflictsTest, ALossHidesSwitches) {
  event(kA, 1000, 10);
  event(kA, 1000, 0, Lost{Timestamp(1'000'000), Timestamp(3'000'000), 5});
  event(kB, 2000, 20);
  event(kA, 3000, 10);
  EXPECT_FALSE(conflicts_.first());
}

TEST_F(CpuConflictsTest, WithoutSwitchesTheThreadMayHaveLeft) {
  conflicts_ = CpuConflicts({{false, 0}, {true, 0}});
  event(kA, 1000, 10);
  event(kB, 2000, 20);
  event(kA, 3000, 10);
  EXPECT_FALSE(conflicts_.first());
}

// Recorded with set_event_pid 10: what ran in between is not in it.
TEST_F(CpuConflictsTest, SwitchesThatDoNotJoinShowAFilter) {
  event(kA, 1000, 10);
  event(kB, 2000, 20);
  event(kA, 3000, 10);
  switched(kA, 3500, 10, 0);
  switched(kA, 4000, 30, 10);
  EXPECT_FALSE(conflicts_.first());
}

TEST_F(CpuConflictsTest, TheErrorOfTheClocksIsTakenOff) {
  conflicts_ = CpuConflicts({{true, 400'000}, {true, 600'000}});
  event(kA, 1000, 10);
  event(kB, 2000, 20);
  event(kA, 3000, 10);
  EXPECT_FALSE(conflicts_.first());
  event(kB, 5000, 20);
  event(kA, 7000, 10);
  ASSERT_TRUE(conflicts_.first());
  EXPECT_EQ(conflicts_.first()->at.at.ns(), 5'000'000u);
}

}  // namespace
}  // namespace trapline
