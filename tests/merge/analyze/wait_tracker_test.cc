#include "merge/analyze/wait_tracker.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "merge/analyze/exit_tracker.h"
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
    case CulpritKind::kIdleOther:
      who = "idle, why is not known";
      break;
    case CulpritKind::kNotAllowed:
      who = "not allowed";
      break;
    case CulpritKind::kQuota:
      who = "quota";
      break;
    case CulpritKind::kFutex:
      who = "futex of " + std::to_string(static_cast<std::int32_t>(culprit.thread));
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
  WaitTrackerTest() : sink_(*this), pipeline_(PipelineOptions(), {&sink_}) {
    // Handlers' ends are recorded.
    play({context(1, HostStep::kTimerEnd), context(1, HostStep::kIrqEnd),
          context(1, HostStep::kSoftirqEnd)});
  }

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
    what.level = in_interrupt ? InterruptLevel::kHard : InterruptLevel::kNone;
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
    return host(at, by, {step, number, 0, 0, 0, InterruptLevel::kHard});
  }
  Event disk(std::uint64_t at, InterruptLevel level = InterruptLevel::kHard) {
    return make(at, 1, kOtherThread, BlockIo{BlockStep::kCompleted, true, false, 0, 8, 0, level});
  }

  // As glibc's mutex calls it: it waits while the value is 2, and wakes one thread.
  static constexpr std::uint64_t kWait = 0x80, kWake = 0x81, kWaitBitset = 0x189, kLockPi = 0x86,
                                 kUnlockPi = 0x87;
  Event futex(std::uint64_t at, ThreadId by, std::uint64_t address, std::uint64_t call,
              std::int32_t value = -1) {
    if (value < 0) value = call == kWait ? 2 : 1;
    return host(at, by, {HostStep::kFutex, value, 0, address, call});
  }
  Event futex_end(std::uint64_t at, ThreadId by) {
    return host(at, by, {HostStep::kFutexEnd, 0, 0, 0, 0});
  }
  static constexpr ThreadId kIdle{0}, kHolder{8};
  Event wakes(std::uint64_t at, ThreadId thread, ThreadId by, bool in_interrupt = false) {
    return woken(at, by, {thread, 0, true}, in_interrupt);
  }

  struct Sink : SpanSink {
    explicit Sink(WaitTrackerTest& owner) : test(owner) {}
    [[nodiscard]] SpanClass selects() const override {
      return SpanClass::kExits | SpanClass::kWaits;
    }
    void wait(const EndedWait& wait, const Pipeline&) override {
      for (const WaitShare& share : wait.shares) test.waits_.push_back(text_of(share));
    }
    void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
      Parts sums{};
      for (const WaitShare& share : pipeline.waits()->shares()) {
        test.shares_.push_back(text_of(share));
        sums[static_cast<std::size_t>(share.part)] += share.length();
      }
      EXPECT_EQ(sums[2], exit.parts[2]);
      EXPECT_EQ(sums[3], exit.parts[3]);
      for (const WaitShare& share : pipeline.waits()->halts())
        test.halts_.push_back(text_of(share));
    }
    WaitTrackerTest& test;
  };

  const std::string selected_ =
      "unknown " + std::to_string(static_cast<int>(Missing::kSelected)) + " ";
  std::vector<std::string> shares_, waits_, halts_;
  Sink sink_;
  Pipeline pipeline_;
};

TEST_F(WaitTrackerTest, PreemptedTimeIsDividedAmongWhatRanOnTheCpu) {
  play({exit(100), sched(200, kVcpu0, ThreadId{7}), sched(250, ThreadId{7}, ThreadId{8}),
        sched(290, ThreadId{8}, ThreadId{0}), sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("7 50", "8 40", "not allowed 10"));
}

TEST_F(WaitTrackerTest, ACpuThatGoesIdleWithTheThreadInItsQueueMayNotRunIt) {
  play({exit(100), sched(200, kVcpu0, kIdle), sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("not allowed 100"));
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
    options.processes.set_selected(ThreadId{1});
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
  processes.set_recorder(ThreadId{5});
  RecordedSwitches switches;
  for (int i = 0; i < 3; ++i) {
    switches.on_switch(0, {kVcpu0, ThreadId{5}, true, ""}, processes);
    switches.on_switch(0, {ThreadId{6}, kVcpu0, true, ""}, processes);
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
    options.processes.set_quotas(
        CpuQuotas({{"/vm", 3, 100, {}}, {"/vm/cpu0", 2, 50, {100}}, {"/other", 9, 9000, {5}}}));
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
  play({exit(100), on(1, sched(150, ThreadId{9}, ThreadId{8})), migrate(160, 1),
        sched(200, kVcpu0, ThreadId{7}), migrate(240, 1), on(1, sched(300, ThreadId{8}, kVcpu0)),
        on(1, entry(400))});
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

// FUTEX_WAKE alone does not tell that its caller held a lock.
TEST_F(WaitTrackerTest, AFutexIsThatOfTheCallThatWokeThoseWhoWaitForIt) {
  for (const std::uint64_t call : {kWait, kWaitBitset}) {
    shares_.clear();
    play({exit(100), futex(190, kVcpu0, 0x1000, call), sched(200, kVcpu0, ThreadId{0}, false),
          futex(255, kOtherThread, 0x1000, kWake), waking(260), sched(300, ThreadId{0}, kVcpu0),
          entry(400)});
    EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 60", "idle 40"));
  }
}

TEST_F(WaitTrackerTest, AnotherFutexWokeNobodyOfThisOne) {
  play({exit(100), futex(190, kVcpu0, 0x1000, kWait), sched(200, kVcpu0, ThreadId{0}, false),
        futex(255, kOtherThread, 0x2000, kWake), waking(260), sched(300, ThreadId{0}, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

TEST_F(WaitTrackerTest, ACallThatIsOverWokeNobodyAfterIt) {
  play({exit(100), futex(190, kVcpu0, 0x1000, kWait), sched(200, kVcpu0, ThreadId{0}, false),
        futex(250, kOtherThread, 0x1000, kWake), context(252, HostStep::kFutexEnd), waking(260),
        sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

// A signal may wake the second one.
TEST_F(WaitTrackerTest, ACallWakesNoMoreThanItMay) {
  play({exit(100), futex(190, kVcpu0, 0x1000, kWait), futex(191, kHolder, 0x1000, kWait),
        on(2, sched(195, kHolder, kIdle, false)), sched(200, kVcpu0, ThreadId{0}, false),
        futex(255, kOtherThread, 0x1000, kWake), wakes(256, kHolder, kOtherThread), waking(260),
        sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

// "Held" is said from the acquisition on; until the holder before let go, it is charged.
TEST_F(WaitTrackerTest, ALockIsHeldByWhoAcquiredItAndBeforeByTheHolderBefore) {
  play({exit(100), on(2, futex(150, kHolder, 0x1000, kWait)),
        on(2, sched(151, kHolder, kIdle, false)), futex(190, kVcpu0, 0x1000, kWait),
        sched(200, kVcpu0, kIdle, false), futex(239, kOtherThread, 0x1000, kWake),
        wakes(240, kHolder, kOtherThread), on(2, sched(250, kIdle, kHolder)),
        futex(259, kHolder, 0x1000, kWake), waking(260, kHolder), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 40", "blocked futex of 8 10",
                                   "blocked lock of 8 10", "idle 40"));
}

// A state or a counter may have a lock's value for a while.
TEST_F(WaitTrackerTest, WhereSomebodyWaitedForAnotherValueThereIsNoLock) {
  play({futex(50, kOtherThread, 0x1000, kWait, 1), exit(100),
        on(2, futex(150, kHolder, 0x1000, kWait)), on(2, sched(151, kHolder, kIdle, false)),
        futex(190, kVcpu0, 0x1000, kWait), sched(200, kVcpu0, kIdle, false),
        futex(239, kOtherThread, 0x1000, kWake), wakes(240, kHolder, kOtherThread),
        on(2, sched(250, kIdle, kHolder)), futex(259, kHolder, 0x1000, kWake), waking(260, kHolder),
        sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 40", "blocked futex of 8 20", "idle 40"));
}

TEST_F(WaitTrackerTest, WhoWaitedForItAgainDidNotHoldIt) {
  play({exit(100), on(2, futex(150, kHolder, 0x1000, kWait)),
        on(2, sched(151, kHolder, kIdle, false)), futex(190, kVcpu0, 0x1000, kWait),
        sched(200, kVcpu0, kIdle, false), futex(209, kOtherThread, 0x1000, kWake),
        wakes(210, kHolder, kOtherThread), on(2, sched(220, kIdle, kHolder)),
        on(2, futex(225, kHolder, 0x1000, kWait)), futex(259, kHolder, 0x1000, kWake),
        waking(260, kHolder), sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 10", "blocked futex of 8 50", "idle 40"));
}

// An event that one thread passes on: the value is not that of a lock, or all are woken.
TEST_F(WaitTrackerTest, AFutexThatIsNoLockIsHeldByNobody) {
  for (const auto& [expected, most] : {std::pair{0, 1}, {2, 1000}}) {
    shares_.clear();
    play({exit(100), on(2, futex(150, kHolder, 0x1000, kWait, expected)),
          on(2, sched(151, kHolder, kIdle, false)), futex(190, kVcpu0, 0x1000, kWait, expected),
          sched(200, kVcpu0, kIdle, false), futex(239, kOtherThread, 0x1000, kWake, 1),
          wakes(240, kHolder, kOtherThread), on(2, sched(250, kIdle, kHolder)),
          futex(259, kHolder, 0x1000, kWake, most), waking(260, kHolder), sched(300, kIdle, kVcpu0),
          entry(400)});
    EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 40", "blocked futex of 8 20", "idle 40"));
  }
}

TEST_F(WaitTrackerTest, OnlyItsOwnerLetsGoOfAPiLock) {
  play({exit(100), on(2, futex(150, kHolder, 0x1000, kLockPi)),
        on(2, sched(151, kHolder, kIdle, false)), futex(190, kVcpu0, 0x1000, kLockPi),
        sched(200, kVcpu0, kIdle, false), futex(239, kOtherThread, 0x1000, kUnlockPi),
        wakes(240, kHolder, kOtherThread), on(2, sched(250, kIdle, kHolder)),
        futex(259, kHolder, 0x1000, kUnlockPi), waking(260, kHolder), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked lock of 7 40", "blocked futex of 8 10",
                                   "blocked lock of 8 10", "idle 40"));
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

// The lock is handed to the one that waits first, and another takes it before that one runs.
TEST_F(WaitTrackerTest, APiLockIsHeldFromTheOwnersAcquisitionOn) {
  play({exit(100), on(2, futex(150, kHolder, 0x1000, kLockPi)),
        on(2, sched(151, kHolder, kIdle, false)), futex(190, kVcpu0, 0x1000, kLockPi),
        sched(200, kVcpu0, kIdle, false), futex(209, kOtherThread, 0x1000, kUnlockPi),
        wakes(210, kHolder, kOtherThread), context(211, HostStep::kFutexEnd),
        futex(215, kOtherThread, 0x1000, kLockPi), context(216, HostStep::kFutexEnd),
        futex(240, kOtherThread, 0x1000, kUnlockPi), context(241, HostStep::kFutexEnd),
        on(2, sched(250, kIdle, kHolder)), on(2, futex_end(251, kHolder)),
        futex(259, kHolder, 0x1000, kUnlockPi), waking(260, kHolder), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked lock of 7 10", "blocked futex of 8 41",
                                   "blocked lock of 8 9", "idle 40"));
}

TEST_F(WaitTrackerTest, WhoTookAPiLockWhileOthersWaitedHeldItFromThenOn) {
  play({exit(100), futex(190, kVcpu0, 0x1000, kLockPi), sched(200, kVcpu0, kIdle, false),
        futex(215, kOtherThread, 0x1000, kLockPi), context(220, HostStep::kFutexEnd),
        futex(259, kOtherThread, 0x1000, kUnlockPi), waking(260), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 20", "blocked lock of 7 40", "idle 40"));
}

// It was woken, and sleeps in read() of an eventfd: without sys_exit_futex nothing else tells.
TEST_F(WaitTrackerTest, WhoSleptInACallAndRanWaitsForNoFutexInTheNextSleep) {
  for (const auto& [wait, wake] : {std::pair{kWait, kWake}, {kLockPi, kUnlockPi}}) {
    shares_.clear();
    play({exit(100), futex(110, kVcpu0, 0x1000, wait), sched(120, kVcpu0, kIdle, false),
          futex(129, kOtherThread, 0x1000, wake), waking(130), sched(140, kIdle, kVcpu0),
          sched(200, kVcpu0, kIdle, false), futex(255, kOtherThread, 0x1000, wake), waking(260),
          sched(300, kIdle, kVcpu0), entry(400)});
    EXPECT_THAT(shares_.at(2), "blocked 7 60");
  }
}

TEST_F(WaitTrackerTest, WhereReturnsAreRecordedAThreadMaySleepTwiceInACall) {
  play({on(1, futex_end(50, kHolder)), exit(100), futex(110, kVcpu0, 0x1000, kWait),
        sched(120, kVcpu0, kIdle, false), waking(130), sched(140, kIdle, kVcpu0),
        sched(200, kVcpu0, kIdle, false), futex(255, kOtherThread, 0x1000, kWake), waking(260),
        sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 10", "idle 10", "blocked futex of 7 60", "idle 40"));
}

TEST_F(WaitTrackerTest, QemusTraceTellsWhoAcquiredALock) {
  play(
      {exit(100), futex(190, kVcpu0, 0x1000, kWait),
       on(1, marker(195, "qemu_mutex_locked taken mutex 0x1000 (main-loop.c:312)\n", kOtherThread)),
       sched(200, kVcpu0, kIdle, false), futex(255, kOtherThread, 0x1000, kWake), waking(260),
       sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked lock of 7 60", "idle 40"));
}

TEST_F(WaitTrackerTest, TheSameAddressInAnotherProcessIsAnotherFutex) {
  play({exit(100), on(2, futex(150, kHolder, 0x1000, kWait)),
        on(2, sched(151, kHolder, kIdle, false)), futex(190, kVcpu0, 0x1000, kWait),
        sched(200, kVcpu0, kIdle, false), futex(239, ThreadId{9}, 0x1000, kWake),
        wakes(240, kHolder, ThreadId{9}), futex(259, kOtherThread, 0x1000, kWake), waking(260),
        sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 60", "idle 40"));
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

TEST(LargestCulprit, IsTheEarliestOfEquals) {
  Culprit earlier, later;
  earlier.thread = ThreadId{7};
  later.thread = ThreadId{8};
  const std::array shares = {WaitShare{Part::kBlocked, earlier, Timestamp(0), Timestamp(30)},
                             WaitShare{Part::kBlocked, later, Timestamp(30), Timestamp(60)}};
  EXPECT_EQ(largest(shares, Part::kBlocked).culprit.thread, ThreadId{7});
}

}  // namespace
}  // namespace trapline::test
