#include "merge/analyze/wait_tracker.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// One share: "7 100" is 100 ns of thread 7.
std::string text_of(const WaitShare& share) {
  const Culprit& culprit = share.culprit;
  std::string who;
  switch (culprit.kind) {
    case CulpritKind::kThread:
      who = std::to_string(static_cast<std::int32_t>(culprit.thread));
      break;
    case CulpritKind::kIdle:
      who = "idle";
      break;
    case CulpritKind::kTimer:
      who = "timer";
      break;
    case CulpritKind::kInterrupt:
      who = "irq " + std::to_string(culprit.number);
      break;
    case CulpritKind::kDisk:
      who = "disk";
      break;
    case CulpritKind::kIpi:
      who = "ipi " + std::to_string(static_cast<std::int32_t>(culprit.thread));
      break;
    case CulpritKind::kLock:
      who = "lock of " + std::to_string(static_cast<std::int32_t>(culprit.thread));
      break;
    case CulpritKind::kSoftirq:
      who = "softirq " + std::to_string(culprit.number);
      break;
    case CulpritKind::kUnknown:
      who = "unknown " + std::to_string(static_cast<int>(culprit.missing));
      break;
  }
  if (culprit.handler != kNoName) who += " handler";
  if (culprit.root == CulpritKind::kTimer) who += " after a timer";
  if (culprit.root == CulpritKind::kDisk) who += " after the disk";
  return (share.part == Part::kBlocked ? "blocked " : "") + who + " " +
         std::to_string(share.length());
}

class WaitTrackerTest : public testing::Test {
 protected:
  WaitTrackerTest() : sink_(*this), pipeline_(PipelineOptions(), {&sink_}) {}

  void play(std::initializer_list<Event> events) {
    for (const Event& event : events) ASSERT_TRUE(pipeline_.push(event));
  }
  Event on(std::uint32_t cpu, Event event) {
    event.cpu = cpu;
    return event;
  }
  Event sched(std::uint64_t at, ThreadId prev, ThreadId next, bool runnable = true,
              std::uint32_t cpu = 0) {
    return make(at, cpu, prev, SchedSwitch{prev, next, runnable, "next"});
  }
  Event host(std::uint64_t at, ThreadId by, HostEvent what) { return make(at, 1, by, what); }
  Event woken(std::uint64_t at, ThreadId by, SchedWakeup what, bool in_interrupt) {
    using Context = SchedWakeup::Context;
    what.context = in_interrupt ? Context::kInterrupt : Context::kThread;
    return make(at, 1, by, what);
  }
  Event waking(std::uint64_t at, ThreadId by = kOtherThread, bool in_interrupt = false) {
    return woken(at, by, {kVcpu0, 0, true}, in_interrupt);
  }
  Event wakeup(std::uint64_t at, std::int32_t cpu, ThreadId by = kOtherThread,
               bool in_interrupt = false) {
    return woken(at, by, {kVcpu0, cpu, false}, in_interrupt);
  }
  Event migrate(std::uint64_t at, std::int32_t cpu) {
    return host(at, kOtherThread, {HostStep::kMigrate, cpu, 100, 0, 0});
  }
  Event context(std::uint64_t at, HostStep step, std::int32_t number = 0,
                ThreadId by = kOtherThread) {
    return host(at, by, {step, number, 0, 0, 0});
  }
  Event disk(std::uint64_t at) {
    return make(at, 1, kOtherThread, BlockIo{BlockStep::kCompleted, true, false, 0, 8, 0});
  }

  static constexpr std::uint64_t kWait = 0x80, kWake = 0x81, kWaitBitset = 0x189;
  Event futex(std::uint64_t at, ThreadId by, std::uint64_t address, std::uint64_t call) {
    return host(at, by, {HostStep::kFutex, 0, 0, address, call});
  }
  Event wakes(std::uint64_t at, ThreadId thread, ThreadId by, bool in_interrupt = false) {
    return woken(at, by, {thread, 0, true}, in_interrupt);
  }

  struct Sink : SpanSink {
    explicit Sink(WaitTrackerTest& owner) : test(owner) {}
    [[nodiscard]] SpanClass selects() const override {
      return SpanClass::kEvents | SpanClass::kExits | SpanClass::kIntervals;
    }
    void event(const Event& event, const Pipeline& pipeline) override {
      test.tracker_.on(event, pipeline);
      if (const auto* ended = test.tracker_.ended()) {
        for (const WaitShare& share : ended->shares) test.waits_.push_back(text_of(share));
      }
    }
    void exit(const ExitSpan& exit, const Pipeline&) override {
      Parts sums{};
      for (const WaitShare& share : test.tracker_.of(exit)) {
        test.shares_.push_back(text_of(share));
        sums[static_cast<std::size_t>(share.part)] += share.length();
      }
      EXPECT_EQ(sums[2], exit.parts[2]);
      EXPECT_EQ(sums[3], exit.parts[3]);
    }
    WaitTrackerTest& test;
  };

  WaitTracker tracker_;
  std::vector<std::string> shares_, waits_;
  Sink sink_;
  Pipeline pipeline_;
};

TEST_F(WaitTrackerTest, PreemptedTimeIsDividedAmongWhatRanOnTheCpu) {
  play({exit(100), sched(200, kVcpu0, ThreadId{7}), sched(250, ThreadId{7}, ThreadId{8}),
        sched(290, ThreadId{8}, ThreadId{0}), sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("7 50", "8 40", "idle 10"));
}

TEST_F(WaitTrackerTest, OtherCpusDoNotMatter) {
  play({exit(100), sched(200, kVcpu0, ThreadId{7}), on(1, sched(220, ThreadId{9}, ThreadId{8})),
        sched(300, ThreadId{7}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("7 100"));
}

TEST_F(WaitTrackerTest, AMigrationMovesTheWaitToTheOtherCpu) {
  play({exit(100), on(1, sched(150, ThreadId{9}, ThreadId{8})), sched(200, kVcpu0, ThreadId{7}),
        migrate(240, 1), on(1, sched(300, ThreadId{8}, kVcpu0)), on(1, entry(400))});
  EXPECT_THAT(shares_, ElementsAre("7 40", "8 60"));
}

TEST_F(WaitTrackerTest, WithoutSchedMigrateTaskAMovedWaitIsUnknown) {
  play({exit(100), on(1, sched(150, ThreadId{9}, ThreadId{8})), sched(200, kVcpu0, ThreadId{7}),
        on(1, sched(300, ThreadId{8}, kVcpu0)), on(1, entry(400))});
  EXPECT_THAT(shares_, ElementsAre("unknown 3 100"));
}

TEST_F(WaitTrackerTest, BlockedTimeIsTheWakersAndTheRestThatOfTheTargetCpu) {
  play({exit(100), sched(200, kVcpu0, ThreadId{0}, false), waking(260), wakeup(270, 0),
        sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
  EXPECT_EQ(tracker_.counters().cpu_assumed, 0u);
}

TEST_F(WaitTrackerTest, WithoutSchedWakeupTheCpuIsTheOneItRanOnNext) {
  play({exit(100), on(1, sched(150, ThreadId{9}, ThreadId{8})),
        sched(200, kVcpu0, ThreadId{0}, false), waking(260), on(1, sched(300, ThreadId{8}, kVcpu0)),
        on(1, entry(400))});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "8 40"));
  EXPECT_EQ(tracker_.counters().cpu_assumed, 1u);
}

TEST_F(WaitTrackerTest, ASleepThatNoWakeUpEndedIsUnknown) {
  play({exit(100), sched(200, kVcpu0, ThreadId{0}, false), sched(300, ThreadId{0}, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked unknown 2 100"));
}

TEST_F(WaitTrackerTest, AnInterruptIsNotTheThreadThatItHit) {
  play({exit(100), sched(200, kVcpu0, ThreadId{0}, false), waking(260, ThreadId{9}, true),
        sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked unknown 4 60", "idle 40"));
}

TEST_F(WaitTrackerTest, ATimerAnInterruptAndTheDiskAreToldByTheirEvents) {
  for (const auto& [cause, who] : {std::pair{context(255, HostStep::kTimerBegin), "timer"},
                                   {context(255, HostStep::kIrqBegin, 25), "irq 25"},
                                   {disk(255), "disk"}}) {
    shares_.clear();
    play({exit(100), sched(200, kVcpu0, ThreadId{0}, false), cause, waking(260, ThreadId{9}, true),
          sched(300, ThreadId{0}, kVcpu0), entry(400),
          on(1, sched(410, ThreadId{9}, ThreadId{8}))});
    EXPECT_THAT(shares_, ElementsAre("blocked " + std::string(who) + " 60", "idle 40"));
  }
}

TEST_F(WaitTrackerTest, ATimerThatEndedWokeNobody) {
  play({exit(100), sched(200, kVcpu0, ThreadId{0}, false), context(250, HostStep::kTimerBegin),
        context(255, HostStep::kTimerEnd), waking(260, ThreadId{9}, true),
        sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked unknown 4 60", "idle 40"));
}

TEST_F(WaitTrackerTest, AnIpiIsProvenByItsEventInTheSendersExit) {
  play({on(1, exit(90, kSvmIo, kVcpu1)), exit(100), sched(200, kVcpu0, ThreadId{0}, false),
        context(255, HostStep::kIpi, 0, kVcpu1), waking(260, kVcpu1),
        sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked ipi 101 60", "idle 40"));
}

TEST_F(WaitTrackerTest, AVcpuThatSentNoIpiIsAThread) {
  play({context(80, HostStep::kIpi, 0, kVcpu1), on(1, exit(90, kSvmIo, kVcpu1)), exit(100),
        sched(200, kVcpu0, ThreadId{0}, false), waking(260, kVcpu1),
        sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 101 60", "idle 40"));
}

TEST_F(WaitTrackerTest, AWakersQemuEventInTheWaitIsItsHandler) {
  play({exit(100), sched(200, kVcpu0, ThreadId{0}, false),
        on(1, marker(230, "virtio_blk_handle_read vdev 0x55 req 0x66 sector 0 nsectors 8\n",
                     kOtherThread)),
        waking(260), sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 handler 60", "idle 40"));
}

TEST_F(WaitTrackerTest, InterruptsTakeTheTimeOfTheThreadThatTheyHit) {
  play({exit(100), sched(200, kVcpu0, ThreadId{7}), on(0, context(220, HostStep::kSoftirqBegin, 3)),
        on(0, context(230, HostStep::kIrqBegin, 25)), on(0, context(245, HostStep::kIrqEnd, 25)),
        on(0, context(250, HostStep::kSoftirqEnd, 3)), sched(300, ThreadId{7}, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("7 20", "softirq 3 10", "irq 25 15", "softirq 3 5", "7 50"));
}

TEST_F(WaitTrackerTest, AnInterruptOfAnotherCpuOrOneThatBeganBeforeTakesNothing) {
  play({exit(100), sched(200, kVcpu0, ThreadId{7}), on(1, context(220, HostStep::kIrqBegin, 25)),
        on(0, context(240, HostStep::kIrqEnd, 25)), sched(300, ThreadId{7}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("7 100"));
}

TEST_F(WaitTrackerTest, BeforeTheFirstSwitchAnInterruptIsKnownAndTheThreadAfterIt) {
  play({exit(100), sched(200, kVcpu0, ThreadId{9}), migrate(210, 1),
        on(1, context(220, HostStep::kIrqBegin, 25)), on(1, context(240, HostStep::kIrqEnd, 25)),
        on(1, sched(300, ThreadId{6}, kVcpu0)), on(1, entry(400))});
  EXPECT_THAT(shares_, ElementsAre("9 10", "unknown 1 10", "irq 25 20", "6 60"));
}

TEST_F(WaitTrackerTest, ALockIsThatOfTheFutexBothNamed) {
  play({exit(100), futex(190, kVcpu0, 0x1000, kWait), sched(200, kVcpu0, ThreadId{0}, false),
        futex(255, kOtherThread, 0x1000, kWake), waking(260), sched(300, ThreadId{0}, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked lock of 7 60", "idle 40"));
}

TEST_F(WaitTrackerTest, AnotherFutexIsNoLock) {
  play({exit(100), futex(190, kVcpu0, 0x1000, kWait), sched(200, kVcpu0, ThreadId{0}, false),
        futex(255, kOtherThread, 0x2000, kWake), waking(260), sched(300, ThreadId{0}, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

TEST_F(WaitTrackerTest, AConditionIsNoLock) {
  play({exit(100), futex(190, kVcpu0, 0x1000, kWaitBitset), sched(200, kVcpu0, ThreadId{0}, false),
        futex(255, kOtherThread, 0x1000, kWake), waking(260), sched(300, ThreadId{0}, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

TEST_F(WaitTrackerTest, ALockThatWasLetGoBeforeTheSleepDidNotEndIt) {
  play({exit(100), futex(190, kVcpu0, 0x1000, kWait), futex(195, kOtherThread, 0x1000, kWake),
        sched(200, kVcpu0, ThreadId{0}, false), waking(260), sched(300, ThreadId{0}, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

TEST_F(WaitTrackerTest, AWakerThatSleptItselfSaysForWhat) {
  play({exit(100), on(1, sched(190, kOtherThread, ThreadId{0}, false)),
        sched(200, kVcpu0, ThreadId{0}, false), context(250, HostStep::kTimerBegin),
        wakes(252, kOtherThread, ThreadId{0}, true), waking(260), sched(300, ThreadId{0}, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 after a timer 60", "idle 40"));
}

TEST_F(WaitTrackerTest, TheChainOfWakersIsFollowedToItsEnd) {
  play({exit(100), on(1, sched(180, ThreadId{8}, ThreadId{0}, false)),
        on(1, sched(190, kOtherThread, ThreadId{0}, false)), sched(200, kVcpu0, ThreadId{0}, false),
        disk(245), wakes(246, ThreadId{8}, ThreadId{0}, true),
        on(1, sched(247, ThreadId{0}, ThreadId{8})), wakes(252, kOtherThread, ThreadId{8}),
        waking(260), sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 after the disk 60", "idle 40"));
}

TEST_F(WaitTrackerTest, AWakerThatSleptOnlyForASmallPartOfItDidTheRest) {
  play({exit(100), on(1, sched(190, kOtherThread, ThreadId{0}, false)),
        sched(200, kVcpu0, ThreadId{0}, false), context(210, HostStep::kTimerBegin),
        wakes(212, kOtherThread, ThreadId{0}, true), waking(260), sched(300, ThreadId{0}, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

TEST_F(WaitTrackerTest, NoWaitBridgesALoss) {
  play({exit(100), sched(200, kVcpu0, ThreadId{7}), lost(0, 220, 260),
        sched(300, ThreadId{7}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, IsEmpty());
  EXPECT_THAT(waits_, IsEmpty());
  EXPECT_EQ(tracker_.counters().cut_by_loss, 1u);
}

TEST_F(WaitTrackerTest, AfterALossTheThreadThatLeavesHasRunSince) {
  play({exit(100), on(1, sched(110, ThreadId{9}, ThreadId{8})), lost(1, 120, 150),
        sched(200, kVcpu0, ThreadId{7}), migrate(200, 1),
        on(1, sched(250, ThreadId{6}, ThreadId{5})), on(1, sched(300, ThreadId{5}, kVcpu0)),
        on(1, entry(400))});
  EXPECT_THAT(shares_, ElementsAre("6 50", "5 50"));
}

TEST_F(WaitTrackerTest, WaitsOutsideOfExitsAreTold) {
  play({exit(100), entry(150), sched(200, kVcpu0, ThreadId{7}), sched(300, ThreadId{7}, kVcpu0)});
  EXPECT_THAT(shares_, IsEmpty());
  EXPECT_THAT(waits_, ElementsAre("7 100"));
}

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

TEST(LargestCulprit, IsTheOneOfTheLargestSum) {
  const auto share = [](std::int32_t thread, std::uint64_t begin, std::uint64_t end) {
    return WaitShare{Part::kPreempted,
                     {CulpritKind::kThread, Missing::kNone, ThreadId{thread}, 0, kNoName},
                     Timestamp(begin),
                     Timestamp(end)};
  };
  const std::array shares = {share(7, 0, 30), share(8, 30, 70), share(7, 70, 90)};
  EXPECT_EQ(largest(shares, Part::kPreempted).culprit.thread, ThreadId{7});
  EXPECT_EQ(largest(shares, Part::kPreempted).ns, 50u);
  EXPECT_EQ(largest(shares, Part::kBlocked).ns, 0u);
}

}  // namespace
}  // namespace trapline::test
