// What finds no room: of a wait, of an exit, of all threads.
#include "tests/merge/analyze/wait_tracker_fixture.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;

TEST_F(WaitTrackerTest, ALongWaitIsDividedAsFarAsTheRecordReachesBack) {
  play({exit(100), sched(1000, kVcpu0, ThreadId{7})});
  std::uint64_t at = 1000;
  for (std::size_t i = 0; i < CpuRunners::kMost; ++i) {
    at += 10;
    play({sched(at, ThreadId{7}, ThreadId{7})});
  }
  play({sched(at + 10, ThreadId{7}, kVcpu0), entry(at + 20)});
  ASSERT_FALSE(shares_.empty());
  EXPECT_EQ(shares_.front(), "unknown 6 20");
  EXPECT_EQ(shares_.back(), "7 10");
}

TEST_F(WaitTrackerTest, OfMoreThreadsThanAreFollowedTheCallsAreNotKept) {
  for (std::int32_t i = 0; i < 5000; ++i) play({futex(50, ThreadId{10'000 + i}, 0x2000, kWake)});
  play({exit(100), futex(190, kVcpu0, 0x1000, kWait), sched(200, kVcpu0, kIdle, false),
        futex(255, kOtherThread, 0x1000, kWake), waking(260), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

// Each wait has as many pieces as a CPU's record; those of two are kept.
TEST_F(WaitTrackerTest, SharesThatFindNoPlaceAreUnknownForWantOfRoom) {
  std::uint64_t at = 1000;
  play({exit(at)});
  for (int wait = 0; wait < 4; ++wait) {
    play({sched(at += 10, kVcpu0, ThreadId{7})});
    for (std::size_t i = 0; i + 2 < CpuRunners::kMost; ++i)
      play({sched(at += 10, ThreadId{7}, ThreadId{7})});
    play({sched(at += 10, ThreadId{7}, kVcpu0)});
  }
  play({entry(at + 10)});
  const auto room = "unknown " + std::to_string(static_cast<int>(Missing::kRoom)) + " ";
  const auto lost = std::count_if(shares_.begin(), shares_.end(), [&](const std::string& share) {
    return share.starts_with(room);
  });
  EXPECT_GT(lost, 0);
  for (const std::string& share : shares_)
    EXPECT_TRUE(share.starts_with(room) || share.starts_with("7 ")) << share;
}

// Each exit takes its shares with it; three of each, so that no limit falls between exits.
TEST_F(WaitTrackerTest, HoweverManyExitsCameBeforeTheSharesOfOneHaveTheirPlace) {
  std::uint64_t at = 100;
  for (std::size_t exits = 0; exits < WaitTracker::kMostShares / 2; ++exits) {
    shares_.clear();
    waits_.clear();
    play({exit(at), sched(at + 10, kVcpu0, ThreadId{7}), sched(at + 20, ThreadId{7}, kVcpu0),
          sched(at + 30, kVcpu0, ThreadId{7}, false), waking(at + 40),
          sched(at + 50, ThreadId{7}, kVcpu0), entry(at + 60)});
    ASSERT_EQ(shares_, (std::vector<std::string>{"7 10", "blocked 7 10", "7 10"}));
    at += 100;
  }
}

// All wait for the CPU at once, each for all that ran there: more than is held.
TEST_F(WaitTrackerTest, WhereAllThreadsHoldTooManySharesThoseOfAllGiveWay) {
  constexpr std::int32_t kThreads = 66, kFirst = 1000;
  const auto vcpu = [](std::int32_t number) { return ThreadId{kFirst + number}; };
  std::uint64_t at = 1000;
  for (std::int32_t i = 0; i < kThreads; ++i)
    play({exit(at += 10, kSvmIo, vcpu(i)), sched(at += 10, vcpu(i), ThreadId{7})});
  for (std::size_t i = 0; i + kThreads + 2 < CpuRunners::kMost; ++i)
    play({sched(at += 10, ThreadId{7}, ThreadId{7})});
  for (std::int32_t i = 0; i < kThreads; ++i)
    play({sched(at += 10, ThreadId{7}, vcpu(i)), sched(at += 10, vcpu(i), ThreadId{7})});
  const auto room = "unknown " + std::to_string(static_cast<int>(Missing::kRoom)) + " ";
  const auto ends = [&](std::int32_t number) {
    shares_.clear();
    play({sched(at += 10, ThreadId{7}, vcpu(number)), entry(at += 10, vcpu(number))});
    return shares_;
  };
  // One gave way as a whole, up to its second wait; the last one has all its pieces.
  const std::vector<std::string> first = ends(0), last = ends(kThreads - 1);
  ASSERT_GE(first.size(), 2u);
  EXPECT_TRUE(first.front().starts_with(room)) << first.front();
  EXPECT_FALSE(first.back().starts_with(room)) << first.back();
  EXPECT_GT(last.size(), CpuRunners::kMost / 2);
}

// Its queue's CPU changes while more ran than is kept: what is left out is said to the nanosecond.
TEST_F(WaitTrackerTest, WhatAThreadThatMovesHasNoRoomForIsUnknown) {
  for (const bool migrates : {true, false}) {
    shares_.clear();
    Pipeline pipeline(PipelineOptions(), {&sink_});
    const auto push = [&](const Event& event) { ASSERT_TRUE(pipeline.push(event)); };
    std::uint64_t at = 1000;
    for (const int cpu : {1, 2, 3})  // all CPUs are recorded
      push(make(at, static_cast<std::uint32_t>(cpu), ThreadId{8},
                SchedWakeup{ThreadId{6}, cpu, true}));
    push(exit(at));
    push(sched(at += 10, kVcpu0, ThreadId{7}));
    for (const std::uint32_t cpu : {0u, 1u}) {
      for (std::size_t i = 1; i < CpuRunners::kMost; ++i)
        push(on(cpu, sched(at += 10, ThreadId{7}, ThreadId{7})));
      push(migrate(at += 10, static_cast<std::int32_t>(cpu) + 1));
    }
    for (const std::uint32_t cpu : {2u, 3u}) {
      push(on(cpu, sched(at, ThreadId{8}, ThreadId{9})));
      push(on(cpu, sched(at += 50, ThreadId{9}, ThreadId{9})));
      if (cpu == 2 && migrates) push(migrate(at, 3));
    }
    push(on(3, sched(at, ThreadId{9}, kVcpu0)));
    push(on(3, entry(at + 10)));
    const auto room = "unknown " + std::to_string(static_cast<int>(Missing::kRoom)) + " 100";
    EXPECT_EQ(shares_.back(), room);
    EXPECT_EQ(std::count(shares_.begin(), shares_.end(), room), 1);
  }
}

TEST_F(WaitTrackerTest, AnExitOfMoreIntervalsThanAreKeptHasARestWithoutAName) {
  std::uint64_t at = 100;
  play({exit(at)});
  constexpr std::size_t kWaits = ExitTracker::kMostIntervals / 2 + 100;
  for (std::size_t i = 0; i < kWaits; ++i)
    play({sched(at += 10, kVcpu0, ThreadId{7}), sched(at += 10, ThreadId{7}, kVcpu0)});
  play({entry(at + 10)});
  const auto room = "unknown " + std::to_string(static_cast<int>(Missing::kRoom)) + " 1000";
  ASSERT_EQ(shares_.size(), kWaits - 99);
  EXPECT_EQ(shares_.back(), room);
  EXPECT_EQ(shares_.front(), "7 10");
}

}  // namespace
}  // namespace trapline::test
