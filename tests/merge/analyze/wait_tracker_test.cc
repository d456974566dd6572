#include "merge/analyze/wait_tracker.h"

#include "tests/merge/analyze/wait_tracker_fixture.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(WaitTrackerTest, PreemptedTimeIsDividedAmongWhatRanOnTheCpu) {
  play({exit(100), sched(200, kVcpu0, ThreadId{7}), sched(250, ThreadId{7}, ThreadId{8}),
        sched(290, ThreadId{8}, ThreadId{0}), sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("7 50", "8 40", "not allowed 10"));
}

TEST_F(WaitTrackerTest, ACpuThatGoesIdleWithTheThreadInItsQueueMayNotRunIt) {
  play({exit(100), sched(200, kVcpu0, kIdle), sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("not allowed 100"));
}

// It may have been moved to another CPU's queue and back.
TEST_F(WaitTrackerTest, WithoutMovesAnIdleCpuOfSeveralProvesNothing) {
  PipelineOptions options;
  options.model.moves = false;
  Pipeline without_moves(options, {&sink_});
  for (const Event& event : {exit(100), sched(150, ThreadId{7}, ThreadId{8}, true, 1),
                             sched(200, kVcpu0, kIdle), sched(300, kIdle, kVcpu0), entry(400)})
    ASSERT_TRUE(without_moves.push(event));
  EXPECT_THAT(shares_, ElementsAre("unknown 3 100"));
}

TEST_F(WaitTrackerTest, WhoRanBetweenTwoSuchTimesIsNotTheCulprit) {
  PipelineOptions options;
  options.model.moves = false;
  Pipeline without_moves(options, {&sink_});
  for (const Event& event : {exit(100), sched(200, kVcpu0, kIdle), sched(220, kIdle, ThreadId{7}),
                             sched(250, ThreadId{7}, kIdle), sched(300, kIdle, kVcpu0), entry(400)})
    ASSERT_TRUE(without_moves.push(event));
  EXPECT_THAT(shares_, ElementsAre("unknown 3 100"));
}

TEST_F(WaitTrackerTest, ThreadsThatRunBetweenDidNotKeepItFromRunning) {
  play({exit(100), sched(200, kVcpu0, ThreadId{7}), sched(210, ThreadId{7}, kIdle),
        sched(250, kIdle, ThreadId{8}), sched(260, ThreadId{8}, kIdle),
        sched(290, kIdle, ThreadId{9}), sched(300, ThreadId{9}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_,
              ElementsAre("7 10", "not allowed 40", "not allowed 10", "not allowed 30", "9 10"));
}

TEST_F(WaitTrackerTest, AWokenThreadWhoseCpuGoesIdleAgainMayNotRun) {
  play({exit(100), sched(200, kVcpu0, kIdle, false), waking(260), wakeup(262, 0),
        sched(270, kIdle, ThreadId{7}), sched(280, ThreadId{7}, kIdle), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 10", "7 10", "not allowed 20"));
}

// It may have been switched to idle before the thread was in its queue.
TEST_F(WaitTrackerTest, WithoutSchedWakeupNothingProvesThatAWokenThreadMayNotRun) {
  play({exit(100), sched(200, kVcpu0, ThreadId{7}, false), waking(260),
        sched(265, ThreadId{7}, kIdle), sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "7 5", "idle 35"));
}

TEST_F(WaitTrackerTest, OnlyAWakeUpExplainsAnIdleCpuAndNoneTakesLong) {
  play({exit(100), sched(200, kVcpu0, ThreadId{9}), migrate(210, 1),
        on(1, sched(300, kIdle, kVcpu0)), on(1, entry(400))});
  EXPECT_THAT(shares_, ElementsAre("9 10", "unknown 1 90"));
  shares_.clear();
  play({on(1, exit(500)), on(1, sched(600, kVcpu0, ThreadId{9})),
        on(0, sched(605, ThreadId{9}, kIdle)), migrate(610, 0), sched(700, kIdle, kVcpu0),
        entry(800)});
  EXPECT_THAT(shares_, ElementsAre("9 10", "idle, why is not known 90"));
  shares_.clear();
  play({exit(1000), sched(1100, kVcpu0, kIdle, false), waking(1200), wakeup(1201, 0),
        sched(9'001'200, kIdle, kVcpu0), entry(9'001'300)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 100", "idle, why is not known 9000000"));
}

// A CPU that it was put on shows no event: it may have run there all the time.
TEST_F(WaitTrackerTest, WhereACpuIsNotRecordedAnIdleOneProvesNothing) {
  const auto unseen = "unknown " + std::to_string(static_cast<int>(Missing::kCpu)) + " ";
  play({exit(100), sched(200, kVcpu0, kIdle, false), waking(260), wakeup(262, 2),
        sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, IsEmpty());  // it may have run there
  play({exit(500), sched(600, kVcpu0, ThreadId{9}), sched(605, ThreadId{9}, kIdle),
        sched(700, kIdle, kVcpu0), entry(800)});
  EXPECT_THAT(shares_, ElementsAre("9 5", unseen + "95"));
  shares_.clear();
  play({exit(1000), on(2, sched(1010, ThreadId{6}, kIdle)), sched(1100, kVcpu0, ThreadId{9}),
        sched(1105, ThreadId{9}, kIdle), sched(1200, kIdle, kVcpu0), entry(1300)});
  EXPECT_THAT(shares_, ElementsAre("9 5", "not allowed 95"));
}

// As of a text of trace-cmd report without its flags.
TEST_F(WaitTrackerTest, AWakeUpWithoutFlagsIsBySomebodyUnknown) {
  play({exit(100), sched(200, kVcpu0, kIdle, false),
        make(260, 1, kOtherThread, SchedWakeup{kVcpu0, 0, true}), sched(300, kIdle, kVcpu0),
        entry(400)});
  const auto flags = "blocked unknown " + std::to_string(static_cast<int>(Missing::kFlags));
  EXPECT_THAT(shares_, ElementsAre(flags + " 60", "idle 40"));
}

// Others came between: how long the first one ran is not known.
TEST_F(WaitTrackerTest, SwitchesThatDoNotFollowEachOtherTellNotWhoRan) {
  play({exit(100), sched(200, kVcpu0, ThreadId{7}), sched(300, ThreadId{9}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre(selected_ + "100"));
}

TEST_F(WaitTrackerTest, WhereSwitchesAreLeftOutOnlyThreadsSeenWithAnIdleOneAreKnownToRun) {
  play({sched(10, kVcpu0, ThreadId{7}), sched(20, ThreadId{9}, kVcpu0),
        sched(30, kVcpu0, ThreadId{7}), sched(40, kIdle, kVcpu0), exit(100),
        sched(200, kVcpu0, ThreadId{7}), sched(300, ThreadId{7}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre(selected_ + "100"));
  shares_.clear();
  play({exit(500), sched(600, kVcpu0, ThreadId{8}), sched(610, ThreadId{8}, kIdle),
        sched(620, kIdle, ThreadId{8}), sched(700, ThreadId{8}, kVcpu0), entry(800)});
  EXPECT_THAT(shares_, ElementsAre(selected_ + "10", "not allowed 10", "8 80"));
}

TEST_F(WaitTrackerTest, ARecorderThatLeavesItsThreadsOutIsNoSelection) {
  play({sched(10, kVcpu0, ThreadId{5}), sched(20, ThreadId{6}, kVcpu0),
        sched(30, kVcpu0, ThreadId{6}), sched(40, ThreadId{5}, kVcpu0), exit(100),
        sched(200, kVcpu0, ThreadId{7}), sched(300, ThreadId{7}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("7 100"));
}

// Two in 3,000 switches: tracing was off for a while, or a thread took its process's id.
TEST_F(WaitTrackerTest, AFewSkipsDoNotMakeASelection) {
  for (std::uint64_t at = 1; at < 3000; at += 2)
    play({sched(at, kIdle, ThreadId{7}), sched(at + 1, ThreadId{7}, kIdle)});
  play({sched(3001, ThreadId{5}, ThreadId{7}), sched(3002, ThreadId{5}, kVcpu0), exit(3100),
        sched(3200, kVcpu0, ThreadId{7}), sched(3300, ThreadId{7}, kVcpu0), entry(3400)});
  EXPECT_THAT(shares_, ElementsAre("7 100"));
}

// The way of a CPU that goes offline, from its stopper thread to the idle one, has no event.
TEST_F(WaitTrackerTest, ACpuThatIsTakenOfflineIsNoSelection) {
  constexpr ThreadId kStopper{20};
  for (const auto& [stopper, culprit] :
       {std::pair{"migration/1", std::string("9 ")}, {"migration/2", selected_}}) {
    shares_.clear();
    Pipeline pipeline(PipelineOptions(), {&sink_});
    for (std::uint64_t at = 10; at < 100; at += 20) {
      for (const Event& event :
           {make(at, 1, kIdle, SchedSwitch{kIdle, kStopper, false, stopper}),
            make(at + 10, 1, kIdle, SchedSwitch{kIdle, kOtherThread, true, "next"}),
            make(at + 11, 1, kOtherThread, SchedSwitch{kOtherThread, kIdle, false, "swapper/1"})})
        ASSERT_TRUE(pipeline.push(event));
    }
    for (const Event& event :
         {exit(200), sched(300, kVcpu0, ThreadId{9}), sched(400, ThreadId{9}, kVcpu0), entry(500)})
      ASSERT_TRUE(pipeline.push(event));
    EXPECT_THAT(shares_, ElementsAre(culprit + "100"));
  }
}

class SelectedTest : public WaitTrackerTest {
 protected:
  SelectedTest() : selected_pipeline_(options(), {&sink_}) {}
  static PipelineOptions options() {
    PipelineOptions options;
    options.processes.selected = ThreadId{1};
    options.processes.set(ThreadId{8}, ThreadId{1});
    return options;
  }
  void wait_for(std::uint64_t at, ThreadId other) {
    for (const Event& event :
         {exit(at), sched(at + 10, kVcpu0, other), sched(at + 50, other, kVcpu0), entry(at + 60)})
      ASSERT_TRUE(selected_pipeline_.push(event));
  }
  Pipeline selected_pipeline_;
};

// What the recorder's threads do among themselves is the recorder's.
TEST(RecorderTest, ItsTimeIsItsOwn) {
  Processes processes;
  processes.recorder = ThreadId{5};
  RecordedSwitches switches;
  const auto run = [&](ThreadId prev, ThreadId next) {
    switches.on_run({.kind = ThreadChange::Kind::kRuns, .thread = next, .other = prev}, processes);
  };
  for (int i = 0; i < 3; ++i) {
    run(kVcpu0, ThreadId{5});
    run(ThreadId{6}, kVcpu0);
    EXPECT_EQ(switches.skipped(), std::nullopt);
  }
  EXPECT_TRUE(switches.has_all_of(ThreadId{7}));
}

TEST_F(SelectedTest, ASessionOfOneProcessKnowsHowLongItsOwnThreadsRan) {
  wait_for(100, ThreadId{7});
  wait_for(200, ThreadId{8});
  wait_for(300, kIdle);
  EXPECT_THAT(shares_, ElementsAre(selected_ + "40", "8 40", "not allowed 40"));
}

class QuotaTest : public WaitTrackerTest {
 protected:
  QuotaTest() : quota_pipeline_(options(), {&sink_}) {}
  static PipelineOptions options() {
    PipelineOptions options;
    options.processes.quotas =
        CpuQuotas({{"/vm", 3, 100, {}}, {"/vm/cpu0", 2, 50, {100}}, {"/other", 9, 9000, {5}}});
    return options;
  }
  void wait(std::uint64_t at, std::uint64_t ns, bool fair = true) {
    Event leaves = sched(at + 10, kVcpu0, kIdle);
    std::get<SchedSwitch>(leaves.payload).fair = fair;
    for (const Event& event :
         {exit(at), leaves, sched(at + 10 + ns, kIdle, kVcpu0), entry(at + 20 + ns)})
      ASSERT_TRUE(quota_pipeline_.push(event));
  }
  Pipeline quota_pipeline_;
};

TEST_F(QuotaTest, AQuotaIsSaidAsFarAsCpuStatCountsThrottledTime) {
  wait(100, 60);
  wait(1000, 80);
  wait(2000, 20);
  wait(3000, 10);
  EXPECT_THAT(shares_, ElementsAre("quota 60", "quota 80", "not allowed 20", "quota 10"));
}

TEST_F(QuotaTest, NoQuotaAppliesToARealTimePolicy) {
  wait(100, 60, false);
  wait(1000, 60);
  EXPECT_THAT(shares_, ElementsAre("not allowed 60", "quota 60"));
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
  EXPECT_EQ(pipeline_.waits()->counters().cpu_assumed, 0u);
}

TEST_F(WaitTrackerTest, WithoutSchedWakeupTheCpuIsTheOneItRanOnNext) {
  play({exit(100), on(1, sched(150, ThreadId{9}, ThreadId{8})),
        sched(200, kVcpu0, ThreadId{0}, false), waking(260), on(1, sched(300, ThreadId{8}, kVcpu0)),
        on(1, entry(400))});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "8 40"));
  EXPECT_EQ(pipeline_.waits()->counters().cpu_assumed, 1u);
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
  using Causes = std::vector<Event>;
  const Event irq = context(250, HostStep::kIrqBegin, 25);
  Event softirq = context(250, HostStep::kSoftirqBegin, 4);
  for (const auto& [causes, who] :
       {std::pair<Causes, std::string>{{context(255, HostStep::kTimerBegin)}, "timer"},
        {{irq}, "irq 25"},
        {{irq, disk(255)}, "disk"},
        // A read or write that ended in a thread's context, in another handler, or in none that is
        // known: the wake-up came from something else.
        {{disk(250, InterruptLevel::kNone), context(255, HostStep::kTimerBegin)}, "timer"},
        {{disk(240), context(255, HostStep::kTimerBegin)}, "timer"},
        {{irq, disk(252), context(255, HostStep::kTimerBegin)}, "timer"},
        {{irq, context(252, HostStep::kTimerBegin), context(255, HostStep::kTimerEnd)}, "irq 25"},
        {{irq, context(252, HostStep::kIrqEnd, 25)}, "unknown 4"},
        {{irq, softirq, context(252, HostStep::kSoftirqEnd, 4)}, "irq 25"},
        {{disk(255)}, "unknown 4"},
        // A hard interrupt that has no handler here came in the softirq.
        {{softirq}, "unknown 4"},
        {{softirq, disk(255)}, "unknown 4"},
        {{softirq, irq}, "irq 25"}}) {
    shares_.clear();
    play({exit(100), sched(200, kVcpu0, ThreadId{0}, false)});
    for (const Event& cause : causes) play({cause});
    play({waking(260, ThreadId{9}, true), sched(300, ThreadId{0}, kVcpu0), entry(400),
          on(1, sched(410, ThreadId{9}, ThreadId{8}))});
    EXPECT_THAT(shares_, ElementsAre("blocked " + who + " 60", "idle 40"));
  }
}

TEST_F(WaitTrackerTest, ASoftirqThatWokeItIsTold) {
  Event wake = waking(260, ThreadId{9}, true);
  std::get<SchedWakeup>(wake.payload).level = InterruptLevel::kSoft;
  play({exit(100), sched(200, kVcpu0, ThreadId{0}, false), context(250, HostStep::kSoftirqBegin, 3),
        wake, sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked softirq 3 60", "idle 40"));
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
        on(0, context(224, HostStep::kTimerBegin)), on(0, context(226, HostStep::kTimerEnd)),
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

// irq_handler_entry alone: the interrupt ended long before the timer came.
TEST_F(WaitTrackerTest, AHandlerWhoseEndIsNotRecordedWokeNobody) {
  for (const HostStep step :
       {HostStep::kTimerBegin, HostStep::kIrqBegin, HostStep::kSoftirqBegin}) {
    shares_.clear();
    Pipeline pipeline(PipelineOptions(), {&sink_});
    for (const Event& event :
         {exit(100), sched(200, kVcpu0, kIdle, false), context(210, step), disk(211),
          waking(260, kIdle, true), sched(300, kIdle, kVcpu0), entry(400)})
      ASSERT_TRUE(pipeline.push(event));
    EXPECT_THAT(shares_, ElementsAre(testing::StartsWith("blocked unknown"), "idle 40"));
  }
}

TEST_F(WaitTrackerTest, TheFirstHandlersEndIsKnownWhereItComesBeforeTheVcpuRuns) {
  Pipeline pipeline(PipelineOptions(), {&sink_});
  for (const Event& event :
       {exit(100), sched(200, kVcpu0, kIdle, false), context(250, HostStep::kIrqBegin, 25),
        disk(255), waking(260, kIdle, true), context(265, HostStep::kIrqEnd, 25),
        sched(300, kIdle, kVcpu0), entry(400)})
    ASSERT_TRUE(pipeline.push(event));
  EXPECT_THAT(shares_, ElementsAre("blocked disk 60", "idle 40"));
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
        context(244, HostStep::kIrqBegin, 25), disk(245),
        wakes(246, ThreadId{8}, ThreadId{0}, true), on(1, sched(247, ThreadId{0}, ThreadId{8})),
        wakes(252, kOtherThread, ThreadId{8}), waking(260), sched(300, ThreadId{0}, kVcpu0),
        entry(400)});
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
  EXPECT_EQ(pipeline_.waits()->counters().cut_by_loss, 1u);
}

TEST_F(WaitTrackerTest, AfterALossTheThreadThatLeavesHasRunSince) {
  play({exit(100), on(1, sched(110, ThreadId{9}, ThreadId{8})), lost(1, 120, 200),
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

TEST_F(WaitTrackerTest, AHaltsSleepIsToldWithWhatEndedIt) {
  const auto halts = [this](std::uint64_t at, std::uint64_t runs) {
    play({exit(at, kSvmHlt), sched(at + 100, kVcpu0, kIdle, false),
          context(at + 150, HostStep::kTimerBegin), waking(at + 160, kIdle, true),
          sched(runs, kIdle, kVcpu0), make(runs + 10, 0, kVcpu0, KvmVcpuWakeup{200, true, true}),
          entry(runs + 100), on(1, sched(runs + 110, ThreadId{9}, ThreadId{8}))});
  };
  halts(100, 260);
  EXPECT_THAT(halts_, ElementsAre("timer 60"));
  EXPECT_THAT(shares_, IsEmpty());
  halts(1100, 1300);
  EXPECT_THAT(halts_, ElementsAre("timer 60", "timer 60"));
  EXPECT_THAT(shares_, ElementsAre("idle 40"));
  play({exit(2000), sched(2010, kVcpu0, ThreadId{7}), sched(2020, ThreadId{7}, kVcpu0),
        entry(2100)});
  EXPECT_THAT(halts_, ElementsAre("timer 60", "timer 60"));
}

TEST_F(WaitTrackerTest, AFutexsWakerSaysWhatItSleptForAndItsHandler) {
  play({exit(100), futex(190, kVcpu0, 0x1000, kWait), on(1, sched(195, kOtherThread, kIdle, false)),
        sched(200, kVcpu0, kIdle, false), context(249, HostStep::kIrqBegin, 25), disk(250),
        wakes(250, kOtherThread, kIdle, true), on(1, sched(251, kIdle, kOtherThread)),
        on(1, marker(252, "virtio_blk_handle_read vdev 0x55 req 0x66 sector 0 nsectors 8\n",
                     kOtherThread)),
        futex(255, kOtherThread, 0x1000, kWake), waking(260), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 handler after the disk 60", "idle 40"));
}

TEST_F(WaitTrackerTest, AWokenThreadWaitsWhereSchedWakeupSays) {
  play({exit(100), on(1, sched(150, ThreadId{9}, ThreadId{8})), sched(200, kVcpu0, kIdle, false),
        waking(260), woken(261, kOtherThread, {ThreadId{9}, 0, false}, false), wakeup(262, 1),
        on(1, sched(300, ThreadId{8}, kVcpu0)), on(1, entry(400))});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "8 40"));
  EXPECT_EQ(pipeline_.waits()->counters().cpu_assumed, 0u);
  shares_.clear();
  play({on(1, exit(500)), on(1, sched(600, kVcpu0, kIdle, false)), waking(660), wakeup(662, -1),
        on(1, sched(700, kIdle, kVcpu0)), on(1, entry(800))});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
  EXPECT_EQ(pipeline_.waits()->counters().cpu_assumed, 1u);
}

// Where it waited after a wake-up was assumed; where it is switched out is known.
TEST_F(WaitTrackerTest, APreemptedThreadsQueueIsKnownWhateverItWaitedForBefore) {
  play({exit(100), sched(200, kVcpu0, kIdle, false), waking(260), sched(300, kIdle, kVcpu0),
        sched(310, kVcpu0, ThreadId{7}), on(1, sched(320, ThreadId{9}, kVcpu0)),
        on(1, entry(400))});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40", "unknown 3 10"));
  EXPECT_EQ(pipeline_.waits()->counters().cpu_assumed, 1u);
}

// An idle CPU that it was moved to has nothing to do with its wake-up.
TEST_F(WaitTrackerTest, AWokenThreadThatMovesWaitsForNoWakeUpAnyMore) {
  play({exit(100), on(1, sched(150, ThreadId{9}, kIdle)), sched(200, kVcpu0, kIdle, false),
        waking(260), wakeup(262, 0), migrate(270, 1), on(1, sched(300, kIdle, kVcpu0)),
        on(1, entry(400))});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 10", "idle, why is not known 30"));
}

TEST_F(WaitTrackerTest, AThreadThatLeavesWhileAnotherCpuLosesEventsMayRunThere) {
  play({on(1, sched(110, ThreadId{9}, ThreadId{8})), lost(1, 120, 250), lost(2, 130, 140),
        exit(190), sched(200, kVcpu0, ThreadId{7}), sched(300, ThreadId{7}, kVcpu0), entry(400)});
  EXPECT_THAT(waits_, IsEmpty());
}

TEST_F(WaitTrackerTest, AWaitIsCountedAndToldOnce) {
  play({exit(100), sched(200, kVcpu0, ThreadId{7}), sched(210, ThreadId{7}, kVcpu0),
        sched(220, kVcpu0, ThreadId{7}), sched(240, ThreadId{7}, kVcpu0), entry(250), exit(300),
        entry(400)});
  EXPECT_THAT(waits_, ElementsAre("7 10", "7 20"));
  EXPECT_EQ(pipeline_.waits()->counters().waits, 2u);
  EXPECT_EQ(pipeline_.waits()->counters().cut_by_loss, 0u);
}

TEST_F(WaitTrackerTest, NoCpuIsAssumedForAThreadThatRunsAsItIsWoken) {
  play({exit(100), sched(200, kVcpu0, kIdle, false), waking(260), sched(260, kIdle, kVcpu0),
        sched(300, kVcpu0, kIdle, false), waking(300), wakeup(300, 0), sched(310, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(waits_, ElementsAre("blocked 7 60", "not allowed 10"));
  EXPECT_EQ(pipeline_.waits()->counters().cpu_assumed, 0u);
}

TEST_F(WaitTrackerTest, AWakerThatSleptForHalfOfItDidTheRest) {
  play({exit(100), on(1, sched(190, kOtherThread, kIdle, false)), sched(200, kVcpu0, kIdle, false),
        context(220, HostStep::kTimerBegin), wakes(230, kOtherThread, kIdle, true),
        on(1, sched(231, kIdle, kOtherThread)), waking(260), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

TEST_F(WaitTrackerTest, AWakersSleepBeforeTheWaitIsNotWhatItWaitedFor) {
  play({on(1, sched(10, kOtherThread, kIdle, false)), exit(100), sched(200, kVcpu0, kIdle, false),
        context(205, HostStep::kTimerBegin), wakes(210, kOtherThread, kIdle, true),
        on(1, sched(211, kIdle, kOtherThread)), waking(260), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

// The first wake-up's handler may have ended long before; the second wake-up is a thread's own.
TEST_F(WaitTrackerTest, AHandlerWithoutAnEndIsNoDoubtAboutTheNextWakeUp) {
  Pipeline pipeline(PipelineOptions(), {&sink_});
  for (const Event& event :
       {exit(100), sched(200, kVcpu0, kIdle, false), context(210, HostStep::kIrqBegin),
        waking(260, kIdle, true), sched(300, kIdle, kVcpu0), sched(310, kVcpu0, kIdle, false),
        waking(330), sched(340, kIdle, kVcpu0), sched(350, kVcpu0, kIdle, false),
        context(351, HostStep::kIrqBegin), waking(360, kIdle, true), sched(361, kIdle, kVcpu0),
        sched(370, kVcpu0, kIdle, false), sched(390, kIdle, kVcpu0), entry(400)})
    ASSERT_TRUE(pipeline.push(event));
  EXPECT_THAT(shares_, ElementsAre("blocked unknown 4 60", "idle 40", "blocked 7 20", "idle 10",
                                   "blocked unknown 4 10", "idle 1", "blocked unknown 2 20"));
}

// A wake-up whose handler has no end says nothing of what the woken one woke then, either.
TEST_F(WaitTrackerTest, AWakerThatADoubtfulHandlerWokeSaysNotForWhat) {
  Pipeline pipeline(PipelineOptions(), {&sink_});
  for (const Event& event :
       {exit(100), on(1, sched(190, kOtherThread, kIdle, false)), sched(200, kVcpu0, kIdle, false),
        context(250, HostStep::kTimerBegin), wakes(252, kOtherThread, kIdle, true),
        on(1, sched(253, kIdle, kOtherThread)), waking(260), sched(300, kIdle, kVcpu0), entry(400)})
    ASSERT_TRUE(pipeline.push(event));
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

TEST_F(WaitTrackerTest, InterruptsOfCpusBeyondThoseThatAreFollowedAreUnknown) {
  constexpr std::uint32_t kCpu = CpuRunners::kMostCpus;
  play({exit(100), sched(200, kVcpu0, kIdle, false),
        on(kCpu, context(250, HostStep::kIrqBegin, 25)), on(kCpu, disk(255)),
        on(kCpu, waking(260, ThreadId{9}, true)), sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked unknown 4 60", "idle 40"));
}

TEST_F(WaitTrackerTest, AnIpiAndAHandlersEventCountFromTheMomentOnThatTheyBelongTo) {
  play({context(90, HostStep::kIpi, 0, kVcpu1), on(1, exit(90, kSvmIo, kVcpu1)), exit(100),
        sched(200, kVcpu0, kIdle, false), waking(260, kVcpu1), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked ipi 101 60", "idle 40"));
  shares_.clear();
  const std::string_view read = "virtio_blk_handle_read vdev 0x55 req 0x66 sector 0 nsectors 8\n";
  play({exit(500), sched(600, kVcpu0, kIdle, false), on(1, marker(600, read, kOtherThread)),
        waking(660), sched(700, kIdle, kVcpu0), entry(800)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 handler 60", "idle 40"));
}

TEST_F(WaitTrackerTest, AMutexsEventIsNoHandler) {
  play({exit(100), sched(200, kVcpu0, kIdle, false),
        on(1, marker(230, "qemu_mutex_unlock released mutex 0x1000 (main-loop.c:312)\n",
                     kOtherThread)),
        waking(260), sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

TEST_F(WaitTrackerTest, AWakersQemuEventBeforeTheWaitIsNotItsHandler) {
  const std::string_view read = "virtio_blk_handle_read vdev 0x55 req 0x66 sector 0 nsectors 8\n";
  play({exit(100), on(1, marker(199, read, kOtherThread)), sched(200, kVcpu0, kIdle, false),
        waking(260), sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

// The thread may have returned from its call in the loss.
TEST_F(WaitTrackerTest, AfterALossNobodyWaitsForAFutexAnyMore) {
  play({on(1, futex_end(50, kHolder)), exit(100), futex(110, kVcpu0, 0x1000, kWait),
        lost(3, 120, 130), sched(200, kVcpu0, kIdle, false),
        futex(255, kOtherThread, 0x1000, kWake), waking(260), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

// An interrupt that was open when events were lost may have ended there.
TEST_F(WaitTrackerTest, AfterALossNoHandlerIsOpenAnyMore) {
  play({context(50, HostStep::kIrqBegin, 25), lost(1, 60, 90), exit(100),
        sched(200, kVcpu0, kIdle, false), waking(260, ThreadId{9}, true), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked unknown 4 60", "idle 40"));
}

TEST_F(WaitTrackerTest, OfAWaitThatBeganBeforeTheWindowTheRestIsTold) {
  const auto waits_from = [&](std::uint64_t from) {
    waits_.clear();
    PipelineOptions options;
    options.from = TimeSpec{from, false};
    Pipeline pipeline(options, {&sink_});
    for (const Event& event :
         {entry(50), exit(100), sched(200, kVcpu0, ThreadId{7}), sched(300, ThreadId{7}, kHolder),
          sched(350, kHolder, ThreadId{9}), sched(500, ThreadId{9}, kVcpu0), entry(510)})
      EXPECT_TRUE(pipeline.push(event));
    return waits_;
  };
  EXPECT_THAT(waits_from(340), ElementsAre("8 10", "9 150"));
  EXPECT_THAT(waits_from(350), ElementsAre("9 150"));
}

// A thread is named as it was called when it began to run instead.
TEST_F(WaitTrackerTest, AThreadThatIsRenamedWhileItRunsHasItsFirstName) {
  const ThreadId renamed{7};
  const auto runs = [&](std::uint64_t at, ThreadId prev, ThreadId next, const char* name) {
    return make(at, 0, prev, SchedSwitch{prev, next, true, name});
  };
  play({runs(50, kIdle, renamed, "worker"), runs(60, renamed, kVcpu0, "vcpu"), exit(100),
        runs(200, kVcpu0, renamed, "worker"), runs(300, renamed, renamed, "renamed"),
        runs(400, renamed, kVcpu0, "vcpu"), entry(410)});
  ASSERT_EQ(shares_.size(), 2u);
  const CulpritNames& names = pipeline_.waits()->names();
  EXPECT_EQ(names[renamed], "worker");
}

TEST(LargestCulprit, IsTheOneOfTheLargestSum) {
  const auto share = [](std::int32_t thread, std::uint64_t begin, std::uint64_t end) {
    const ProvenCulprit runner({.kind = CulpritKind::kThread, .thread = ThreadId{thread}},
                               EventRef(Event{.at = Timestamp(begin)}));
    return WaitShare{Part::kPreempted, runner, Timestamp(begin), Timestamp(end)};
  };
  const std::array shares = {share(7, 0, 30), share(8, 30, 70), share(7, 70, 90)};
  EXPECT_EQ(largest(shares, Part::kPreempted).culprit.thread, ThreadId{7});
  EXPECT_EQ(largest(shares, Part::kPreempted).ns, 50u);
  EXPECT_EQ(largest(shares, Part::kBlocked).ns, 0u);
}

TEST(LargestCulprit, IsTheEarliestOfEquals) {
  ProvenCulprit earlier, later;
  earlier.set_thread(ThreadId{7});
  later.set_thread(ThreadId{8});
  const std::array shares = {WaitShare{Part::kBlocked, earlier, Timestamp(0), Timestamp(30)},
                             WaitShare{Part::kBlocked, later, Timestamp(30), Timestamp(60)}};
  EXPECT_EQ(largest(shares, Part::kBlocked).culprit.thread, ThreadId{7});
}

}  // namespace
}  // namespace trapline::test
