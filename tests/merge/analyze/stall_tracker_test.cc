#include "merge/analyze/stall_tracker.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr ThreadId kVm{50}, kServer{8}, kKworker{9};
constexpr std::uint32_t kUffdCopy = 0xc028aa03, kUffdRegister = 0xc020aa00;
constexpr std::uint64_t kLeast = 10'000;

class StallTrackerTest : public testing::Test {
 protected:
  StallTrackerTest() : sink_(*this), pipeline_(options(), {&sink_}) {}

  static PipelineOptions options() {
    PipelineOptions options;
    options.stalls_ns = kLeast;
    for (const ThreadId vcpu : {kVcpu0, kVcpu1}) options.processes.set(vcpu, kVm);
    return options;
  }
  void play(std::initializer_list<Event> events) {
    for (const Event& event : events) ASSERT_TRUE(pipeline_.push(event));
  }
  // The stalls until then, in the order in which they were told.
  const std::vector<std::string>& until(std::uint64_t end) {
    pipeline_.finish(Timestamp(end));
    return told_;
  }
  std::vector<std::string> open_at(std::uint64_t now) const {
    std::vector<std::string> open;
    for (const StallTime& stall : pipeline_.stalls()->open(pipeline_, Timestamp(now), kLeast)) {
      open.push_back(number(stall.thread) + " since " + std::to_string(stall.begin.ns()) +
                     (stall.open ? "" : " to " + std::to_string(stall.end.ns())));
    }
    return open;
  }

  // An exit that takes so long in the kernel, and ends where the guest goes on.
  void exit_of(std::uint64_t at, std::uint64_t length, ThreadId thread = kVcpu0) {
    play({exit(at, kSvmIo, thread), entry(at + length, thread)});
  }
  void fault(std::uint64_t at, std::uint64_t length, std::uint64_t address, std::uint64_t rip) {
    play({make(at, 0, kVcpu0, KvmExit{kSvmNpf, kSvm, 0, 0, rip}), page_fault(at, address),
          entry(at + length)});
  }
  static Event page_fault(std::uint64_t at, std::uint64_t address) {
    return make(at, 0, kVcpu0, KvmDetail{address, 0, DetailKind::kPageFault, Access::kNone, false});
  }
  static Event ends(std::uint64_t at) {
    SchedSwitch ended{kVcpu0, kOtherThread, false, "other"};
    ended.left = SchedSwitch::Left::kDead;
    return make(at, 0, kVcpu0, ended);
  }
  void interrupt(std::uint64_t at, std::uint64_t length, std::uint64_t rip) {
    constexpr std::uint32_t kSvmIntr = 0x60;
    play({make(at, 0, kVcpu0, KvmExit{kSvmIntr, kSvm, 0, 0, rip}), entry(at + length)});
  }
  void access(std::uint64_t at, std::uint64_t length, std::uint64_t rip) {
    play({make(at, 0, kVcpu0, KvmExit{kSvmNpf, kSvm, 0, 0, rip}),
          make(at, 0, kVcpu0, KvmDetail{0xfee0, 0, DetailKind::kMmio, Access::kRead, false}),
          entry(at + length)});
  }
  static Event stop(std::uint64_t at) {
    SchedSwitch sched{kVcpu0, kOtherThread, false, "other"};
    sched.left = SchedSwitch::Left::kStopped;
    return make(at, 0, kVcpu0, sched);
  }
  static Event woken_by(std::uint64_t at, ThreadId by, ThreadId woken = kVcpu0,
                        SchedWakeup::Context context = SchedWakeup::Context::kThread) {
    SchedWakeup wakeup{woken};
    wakeup.waking = true;
    wakeup.context = context;
    return make(at, 1, by, wakeup);
  }
  static Event sleeps(std::uint64_t at, ThreadId thread) {
    return make(at, 1, thread, SchedSwitch{thread, ThreadId{0}, false, "swapper"});
  }
  static Event memory(std::uint64_t at, HostStep step, ThreadId thread = kVcpu0) {
    return make(at, 0, thread, HostEvent{step, 0, 0, 0, 0});
  }
  static Event ioctl(std::uint64_t at, ThreadId by, std::uint32_t command) {
    return make(at, 1, by, IoctlEnter{command});
  }
  static Event halt_ended(std::uint64_t at, std::uint64_t ns) {
    return make(at, 0, kVcpu0, KvmVcpuWakeup{ns, true, true});
  }

  static std::string number(ThreadId thread) {
    return std::to_string(static_cast<std::int32_t>(thread));
  }
  static std::string text_of(const StallShare& share) {
    constexpr std::string_view kNames[] = {"not known", "guest", "kernel", "user",   "preempted",
                                           "blocked",   "page",  "signal", "paused", "halted"};
    std::string text(kNames[static_cast<std::size_t>(share.cause)]);
    if (share.culprit.is_thread()) text += " by " + number(share.culprit.thread);
    constexpr std::string_view kWorks[] = {
        "", " in reclaim", " in compaction", " in collapse", " in vain", " logged"};
    text += kWorks[static_cast<std::size_t>(share.work)];
    return text + " " + std::to_string(share.ns);
  }
  static std::string text_of(const Stall& stall) {
    std::string text = stall.vcpus == 0 ? number(stall.thread)
                                        : std::to_string(stall.not_halted) + " of " +
                                              std::to_string(stall.vcpus) + " vCPUs";
    text += " at " + std::to_string(stall.begin.ns()) + " for " + std::to_string(stall.length());
    if (stall.exits > 1) text += " in " + std::to_string(stall.exits) + " exits";
    if (stall.faults != 0) text += ", " + std::to_string(stall.faults) + " faults";
    if (stall.open) text += ", open";
    std::uint64_t sum = 0;
    for (const StallShare& share : stall.shares) {
      text += (sum == 0 ? ": " : ", ") + text_of(share);
      sum += share.ns;
    }
    EXPECT_EQ(sum, stall.length());
    return text;
  }
  struct Sink : SpanSink {
    explicit Sink(StallTrackerTest& of) : test(of) {}
    [[nodiscard]] SpanClass selects() const override { return SpanClass::kStalls; }
    void stall(const Stall& stall, const Pipeline&) override {
      test.told_.push_back(text_of(stall));
    }
    StallTrackerTest& test;
  };
  std::vector<std::string> told_;
  Sink sink_;
  Pipeline pipeline_;
};

TEST_F(StallTrackerTest, OneLongExitIsAStall) {
  play({entry(1000), exit(100'000), to_user(110'000), entry(150'000)});
  EXPECT_THAT(until(200'000), ElementsAre("100 at 100000 for 50000: user 40000, kernel 10000"));
}

TEST_F(StallTrackerTest, OnlyThoseThatLastLongEnoughAreTold) {
  exit_of(100'000, kLeast - 1);
  exit_of(500'000, kLeast);
  EXPECT_THAT(until(900'000), ElementsAre("100 at 500000 for 10000: kernel 10000"));
}

TEST_F(StallTrackerTest, ExitsWithAHundredthOfThemBetweenAreOneStall) {
  exit_of(1'000'000, 2'000'000);
  exit_of(3'020'000, 2'000'000);
  EXPECT_THAT(until(9'000'000),
              ElementsAre("100 at 1000000 for 4020000 in 2 exits: kernel 4000000, guest 20000"));
}

TEST_F(StallTrackerTest, MoreThanAHundredthOfEitherBetweenIsProgress) {
  exit_of(1'000'000, 2'000'000);
  exit_of(3'020'000, 1'999'999);
  EXPECT_THAT(until(9'000'000), ElementsAre("100 at 1000000 for 2000000: kernel 2000000",
                                            "100 at 3020000 for 1999999: kernel 1999999"));
}

TEST_F(StallTrackerTest, AHundredMicrosecondsBetweenAreTheMost) {
  exit_of(1'000'000, 20'000'000);
  exit_of(21'100'000, 20'000'000);
  exit_of(41'200'001, 20'000'000);
  EXPECT_THAT(until(99'000'000),
              ElementsAre("100 at 1000000 for 40100000 in 2 exits: kernel 40000000, guest 100000",
                          "100 at 41200001 for 20000000: kernel 20000000"));
}

TEST_F(StallTrackerTest, AShortExitBetweenTwoLongOnesBelongsToThem) {
  exit_of(1'000'000, 2'000'000);
  exit_of(3'001'000, 3000);
  exit_of(3'005'000, 2'000'000);
  EXPECT_THAT(until(9'000'000),
              ElementsAre("100 at 1000000 for 4005000 in 3 exits: kernel 4003000, guest 2000"));
}

TEST_F(StallTrackerTest, AShortExitAfterALongOneIsNotPartOfIt) {
  exit_of(1'000'000, 2'000'000);
  exit_of(3'001'000, 3000);
  EXPECT_THAT(until(9'000'000), ElementsAre("100 at 1000000 for 2000000: kernel 2000000"));
}

TEST_F(StallTrackerTest, AStormOfTheSameFaultIsAStall) {
  for (std::uint64_t i = 0; i < 5; ++i) fault(100'000 + i * 60'000, 5000, 0x7000, 0x1234);
  EXPECT_THAT(until(900'000), ElementsAre("100 at 100000 for 245000 in 5 exits, 5 faults: guest "
                                          "220000, kernel 25000"));
}

TEST_F(StallTrackerTest, AnInterruptAtTheInstructionThatFaultsEndsNoStorm) {
  interrupt(60'000, 20'000, 0x1234);
  fault(100'000, 5000, 0x7000, 0x1234);
  fault(160'000, 5000, 0x7000, 0x1234);
  interrupt(220'000, 5000, 0x1234);
  fault(280'000, 5000, 0x7000, 0x1234);
  EXPECT_THAT(until(900'000), ElementsAre("100 at 60000 for 225000 in 5 exits, 3 faults: guest "
                                          "185000, kernel 40000"));
}

TEST_F(StallTrackerTest, AnInterruptAtAnotherInstructionShowsThatTheGuestGotOn) {
  fault(100'000, 5000, 0x7000, 0x1234);
  interrupt(160'000, 5000, 0x1238);
  fault(220'000, 5000, 0x7000, 0x1234);
  interrupt(280'000, 5000, 0);
  fault(340'000, 5000, 0x7000, 0x1234);
  EXPECT_THAT(until(900'000), IsEmpty());
}

// A driver that polls a register: once its page was not there.
TEST_F(StallTrackerTest, AnAccessByTheInstructionThatFaultedShowsThatTheGuestGotOn) {
  fault(100'000, 5000, 0x7000, 0x1234);
  for (std::uint64_t i = 1; i < 10; ++i) access(100'000 + i * 20'000, 5000, 0x1234);
  interrupt(300'000, 5000, 0x1234);
  EXPECT_THAT(until(900'000), IsEmpty());
}

TEST_F(StallTrackerTest, FaultsOfAGuestThatGetsOnAreNone) {
  for (std::uint64_t i = 0; i < 5; ++i) fault(100'000 + i * 60'000, 5000, 0x7000, 0x1234 + i);
  for (std::uint64_t i = 0; i < 5; ++i) fault(500'000 + i * 60'000, 5000, 0x7000 + i, 0x1234);
  for (std::uint64_t i = 0; i < 5; ++i) fault(900'000 + i * 60'000, 5000, 0x7000, 0);
  for (std::uint64_t i = 0; i < 5; ++i) fault(1'500'000 + i * 110'000, 5000, 0x7000, 0x1234);
  EXPECT_THAT(until(9'000'000), IsEmpty());
}

TEST_F(StallTrackerTest, WaitsAreChargedToThoseWhoAreToBlame) {
  play({exit(100'000), switch_out(110'000, true), switch_in(150'000), switch_out(160'000, false),
        woken_by(180'000, kServer), switch_in(185'000), entry(190'000)});
  EXPECT_THAT(until(200'000),
              ElementsAre("100 at 100000 for 90000: preempted by 7 45000, kernel 25000, blocked by "
                          "8 20000"));
}

// Such an exit is told when the next event of its thread shows that nothing more belongs to it.
TEST_F(StallTrackerTest, WithoutKvmExitToo) {
  for (const bool told_by_access : {false, true}) {
    PipelineOptions how = options();
    how.model.from_userspace_exit = true;
    how.model.user_end = UserEnd::kIoctl;
    Pipeline pipeline(std::move(how), {&sink_});
    for (const std::uint64_t at : {100'000u, 400'000u}) {
      for (const Event& event :
           {to_user(at), switch_out(at + 10'000, false), woken_by(at + 80'000, kServer),
            switch_in(at + 90'000), run_ioctl(at + 100'000)})
        ASSERT_TRUE(pipeline.push(event));
      if (!told_by_access) continue;
      ASSERT_TRUE(pipeline.push(port(at + 101'000, 0x71, Access::kRead)));
    }
    pipeline.finish(Timestamp(900'000));
    const std::string causes = " for 100000: blocked by 8 70000, user 20000, preempted by 7 10000";
    EXPECT_THAT(std::exchange(told_, {}),
                ElementsAre("100 at 100000" + causes, "100 at 400000" + causes));
  }
}

TEST_F(StallTrackerTest, AVcpuThatIsPreemptedInTheGuestIsStopped) {
  play({entry(1000), switch_out(50'000, true), switch_in(90'000), exit(91'000), entry(95'000)});
  EXPECT_THAT(until(200'000),
              ElementsAre("100 at 50000 for 45000: preempted by 7 40000, kernel 5000"));
}

TEST_F(StallTrackerTest, AHaltedVcpuIsIdleUntilItsWakeUp) {
  play({exit(100'000, kSvmHlt), switch_out(120'000, false), woken_by(900'000, kServer),
        switch_in(930'000), entry(940'000)});
  EXPECT_THAT(until(1'000'000),
              ElementsAre("100 at 900000 for 40000: preempted by 7 30000, kernel 10000"));
}

TEST_F(StallTrackerTest, AHaltWhoseSleepNoEventTellsIsNone) {
  play({exit(100'000, kSvmHlt), entry(9'000'000)});
  EXPECT_THAT(until(9'900'000), IsEmpty());
}

// It may wait for a CPU on its way into the sleep.
TEST_F(StallTrackerTest, NorIsAWaitForACpuInIt) {
  play({exit(100'000, kSvmHlt), switch_out(200'000, true), switch_in(250'000), entry(400'000)});
  EXPECT_THAT(until(900'000), IsEmpty());
}

TEST_F(StallTrackerTest, OnItsWayIntoAHaltAVcpuIsIdle) {
  play({exit(100'000, kSvmHlt), switch_out(110'000, true), switch_in(190'000),
        switch_out(195'000, false), woken_by(300'000, kServer), switch_in(301'000),
        entry(302'000)});
  EXPECT_THAT(until(900'000), IsEmpty());
}

TEST_F(StallTrackerTest, AVcpuThatWaitsToBeStartedIsNotStopped) {
  play({exit(100'000, kSvmHlt), entry(100'100), exit(110'000), switch_out(115'000, false),
        woken_by(950'000, kServer), switch_in(950'000),
        make(951'000, 0, kVcpu0, KvmUserspaceExit{0, -11}), entry(955'000)});
  EXPECT_THAT(until(990'000), IsEmpty());
}

TEST_F(StallTrackerTest, APageThatAThreadServesIsToldAsSuch) {
  play({exit(100'000, kSvmNpf), page_fault(100'100, 0x7000), switch_out(110'000, false),
        ioctl(190'000, kServer, kUffdCopy), woken_by(195'000, kServer), switch_in(196'000),
        entry(200'000)});
  EXPECT_THAT(until(300'000), ElementsAre("100 at 100000 for 100000: page by 8 85000, kernel "
                                          "14000, preempted by 7 1000"));
}

TEST_F(StallTrackerTest, AThreadOnItsWayInAnotherIoctlServesNoPage) {
  play({exit(100'000, kSvmNpf), page_fault(100'100, 0x7000), switch_out(110'000, false),
        ioctl(120'000, kServer, kUffdCopy), ioctl(190'000, kServer, kUffdRegister),
        woken_by(195'000, kServer), switch_in(195'000), entry(200'000)});
  EXPECT_THAT(until(300'000),
              ElementsAre("100 at 100000 for 100000: blocked by 8 85000, kernel 15000"));
}

TEST_F(StallTrackerTest, AnInterruptOfTheServerServesNoPage) {
  play({exit(100'000, kSvmNpf), page_fault(100'100, 0x7000), switch_out(110'000, false),
        ioctl(190'000, kServer, kUffdCopy),
        woken_by(195'000, kServer, kVcpu0, SchedWakeup::Context::kInterrupt), switch_in(195'000),
        entry(200'000)});
  EXPECT_THAT(until(300'000), ElementsAre("100 at 100000 for 100000: blocked 85000, kernel 15000"));
}

// An asynchronous page fault: KVM halts the vCPU, and its worker waits for the page.
TEST_F(StallTrackerTest, AHaltForAPageIsAStallAndItsServerIsFollowed) {
  play({exit(100'000, kSvmNpf), page_fault(100'100, 0x7000), switch_out(110'000, false),
        sleeps(111'000, kKworker), ioctl(190'000, kServer, kUffdCopy),
        woken_by(195'000, kServer, kKworker), woken_by(197'000, kKworker), switch_in(198'000),
        halt_ended(198'500, 88'500), entry(200'000)});
  EXPECT_THAT(until(300'000), ElementsAre("100 at 100000 for 100000: page by 8 84000, kernel "
                                          "12000, blocked by 9 3000, preempted by 7 1000"));
}

TEST_F(StallTrackerTest, AWorkerThatWasServedBeforeTheSleepServesNothingNow) {
  play({sleeps(50'000, kKworker), ioctl(60'000, kServer, kUffdCopy),
        woken_by(65'000, kServer, kKworker), exit(100'000, kSvmNpf), page_fault(100'100, 0x7000),
        switch_out(110'000, false), woken_by(197'000, kKworker), switch_in(197'000),
        entry(200'000)});
  EXPECT_THAT(until(300'000),
              ElementsAre("100 at 100000 for 100000: blocked by 9 87000, kernel 13000"));
}

TEST_F(StallTrackerTest, ASignalThatStopsItIsNamed) {
  play({exit(100'000), stop(110'000), woken_by(900'000, kServer), switch_in(900'000),
        entry(905'000)});
  EXPECT_THAT(until(990'000),
              ElementsAre("100 at 100000 for 805000: signal by 8 790000, kernel 15000"));
}

TEST_F(StallTrackerTest, AQemuThatStopsItIsNamed) {
  play({make(50'000, 1, kServer, NewThread{kServer, false}),
        make(50'000, 1, kServer, NewThread{kVcpu0, true}), entry(60'000),
        marker(90'000, "vm_state_notify running 0 reason 4 (paused)\n", kServer), exit(100'000),
        to_user(101'000), switch_out(110'000, false), woken_by(900'000, kServer),
        switch_in(900'000), entry(905'000)});
  EXPECT_THAT(until(990'000), ElementsAre("100 at 100000 for 805000: paused by 8 790000, user "
                                          "14000, kernel 1000"));
}

// QEMU stops its vCPUs before it ends.
TEST_F(StallTrackerTest, TheLastExitOfAThreadThatEndsIsNone) {
  play({exit(10'000), entry(30'000), exit(100'000), switch_out(110'000, false),
        woken_by(900'000, kServer), switch_in(900'000), ends(905'000)});
  EXPECT_THAT(until(990'000), ElementsAre("100 at 10000 for 20000: kernel 20000"));
}

TEST_F(StallTrackerTest, AThreadThatIsKilledWhileASignalHasStoppedItWasStoppedUntilThen) {
  play({exit(10'000), entry(30'000), exit(100'000), stop(110'000), woken_by(900'000, kServer),
        switch_in(900'000), ends(905'000)});
  EXPECT_THAT(until(990'000), ElementsAre("100 at 10000 for 20000: kernel 20000",
                                          "100 at 110000 for 790000: signal by 8 790000"));
}

TEST_F(StallTrackerTest, AStallEndsAtALossAndTheNextBeginsWhereTheVcpuIsSeenAgain) {
  play({exit(100'000), lost(0, 150'000, 160'000), entry(900'000), exit(950'000), entry(970'000)});
  EXPECT_THAT(until(990'000), ElementsAre("100 at 100000 for 50000: kernel 50000",
                                          "100 at 950000 for 20000: kernel 20000"));
}

TEST_F(StallTrackerTest, AStallThatLastsAtTheEndIsToldAsOpen) {
  play({exit(100'000), switch_out(110'000, false)});
  EXPECT_THAT(until(500'000),
              ElementsAre("100 at 100000 for 400000, open: blocked 390000, kernel 10000"));
}

TEST_F(StallTrackerTest, AChainWhoseLastExitLastsIsOpen) {
  exit_of(1'000'000, 2'000'000);
  play({exit(3'001'000)});
  EXPECT_THAT(until(9'000'000), ElementsAre("100 at 1000000 for 8000000 in 2 exits, open: kernel "
                                            "7999000, guest 1000"));
}

// Its sleep has ended, its wait for a CPU has not.
TEST_F(StallTrackerTest, OfAWaitThatLastsAtTheEndItIsToldWhoWokeIt) {
  play({exit(100'000), switch_out(110'000, false), woken_by(300'000, kServer)});
  EXPECT_THAT(until(500'000), ElementsAre("100 at 100000 for 400000, open: preempted 200000, "
                                          "blocked by 8 190000, kernel 10000"));
}

TEST_F(StallTrackerTest, AHaltThatLastsAtTheEndIsNone) {
  play({exit(100'000, kSvmHlt), switch_out(110'000, false)});
  EXPECT_THAT(until(900'000), IsEmpty());
}

TEST_F(StallTrackerTest, AHaltWhoseSleepNoEventTellsIsNoneAtTheEnd) {
  play({exit(100'000, kSvmHlt)});
  EXPECT_THAT(until(900'000), IsEmpty());
}

TEST_F(StallTrackerTest, ThoseThatLastAreTold) {
  exit_of(100'000, 5'000'000);
  EXPECT_THAT(open_at(5'150'000), ElementsAre("100 since 100000"));
  EXPECT_THAT(open_at(5'200'001), ElementsAre("100 since 100000 to 5100000"));
  play({exit(5'110'000), switch_out(5'120'000, false)});
  EXPECT_THAT(open_at(5'121'000), ElementsAre("100 since 5110000"));
  EXPECT_THAT(open_at(6'110'000), ElementsAre("100 since 100000"));
  EXPECT_THAT(open_at(9'000'000), ElementsAre("100 since 100000"));
}

TEST_F(StallTrackerTest, WhileTheVcpuIsHaltedTheOneBeforeIsKnown) {
  exit_of(100'000, 5'000'000);
  play({exit(5'110'000, kSvmHlt), switch_out(5'120'000, false)});
  EXPECT_THAT(open_at(9'000'000), ElementsAre("100 since 100000 to 5100000"));
}

TEST_F(StallTrackerTest, OfThoseThatLastAHaltIsNone) {
  play({exit(100'000, kSvmHlt)});
  EXPECT_THAT(open_at(900'000), IsEmpty());
  play({switch_out(1'000'000, false)});
  EXPECT_THAT(open_at(1'900'000), IsEmpty());
  play({woken_by(2'000'000, kServer), switch_in(2'005'000), halt_ended(2'006'000, 1'906'000)});
  EXPECT_THAT(open_at(2'100'000), ElementsAre("100 since 2000000"));
}

// --- a whole VM

TEST_F(StallTrackerTest, AVmIsStoppedWhereAllItsVcpusAre) {
  play({entry(1000), entry(2000, kVcpu1)});
  play({exit(100'000), exit(101'000, kSvmIo, kVcpu1), entry(200'000, kVcpu1), entry(210'000)});
  EXPECT_THAT(until(300'000), ElementsAre("100 at 100000 for 110000: kernel 110000",
                                          "101 at 101000 for 99000: kernel 99000",
                                          "2 of 2 vCPUs at 101000 for 99000: kernel 99000"));
}

TEST_F(StallTrackerTest, AVmWithOneVcpuStoppedAndOneHaltedIsNot) {
  play({entry(1000), entry(2000, kVcpu1)});
  play({exit(100'000), exit(101'000, kSvmHlt, kVcpu1),
        make(102'000, 1, kVcpu1, SchedSwitch{kVcpu1, ThreadId{0}, false, "swapper"}),
        woken_by(190'000, kServer, kVcpu1),
        make(190'000, 1, ThreadId{0}, SchedSwitch{ThreadId{0}, kVcpu1, true, "vcpu"}),
        entry(191'000, kVcpu1), entry(210'000)});
  EXPECT_THAT(until(300'000), ElementsAre("100 at 100000 for 110000: kernel 110000"));
}

TEST_F(StallTrackerTest, AVmWithAVcpuInTheGuestIsNotStopped) {
  play({entry(1000), entry(2000, kVcpu1)});
  exit_of(100'000, 100'000);
  EXPECT_THAT(until(300'000), ElementsAre("100 at 100000 for 100000: kernel 100000"));
}

// A third vCPU leaves the guest: it was in it all the time.
TEST_F(StallTrackerTest, AVcpuThatWasNotSeenBeforeProvesAStallOfItsVmWrong) {
  constexpr ThreadId kVcpu2{102};
  PipelineOptions how = options();
  how.processes.set(kVcpu2, kVm);
  Pipeline pipeline(std::move(how), {&sink_});
  for (const Event& event :
       {entry(1000), entry(2000, kVcpu1), exit(100'000), exit(101'000, kSvmIo, kVcpu1),
        entry(200'000, kVcpu1), entry(210'000), exit(300'000, kSvmIo, kVcpu2)})
    ASSERT_TRUE(pipeline.push(event));
  pipeline.finish(Timestamp(300'000));
  EXPECT_THAT(told_, ElementsAre("100 at 100000 for 110000: kernel 110000",
                                 "101 at 101000 for 99000: kernel 99000"));
}

TEST_F(StallTrackerTest, ALossLeavesAVmUnknownUntilAllItsVcpusAreSeen) {
  play({entry(1000), entry(2000, kVcpu1), exit(55'000), lost(0, 60'000, 61'000), exit(100'000),
        entry(200'000), exit(250'000, kSvmIo, kVcpu1), entry(350'000, kVcpu1)});
  EXPECT_THAT(until(400'000), ElementsAre("100 at 100000 for 100000: kernel 100000",
                                          "101 at 250000 for 100000: kernel 100000"));
}

TEST_F(StallTrackerTest, OfAVmOnlyPartOfWhichIsChosenNothingIsSaid) {
  PipelineOptions how = options();
  how.threads = {kVcpu0};
  Pipeline pipeline(std::move(how), {&sink_});
  for (const Event& event :
       {entry(1000), entry(2000, kVcpu1), exit(100'000), exit(101'000, kSvmIo, kVcpu1),
        entry(200'000, kVcpu1), entry(210'000), exit(250'000, kSvmIo, kVcpu1)})
    ASSERT_TRUE(pipeline.push(event));
  pipeline.finish(Timestamp(300'000));  // the last exit of kVcpu1 is no span
  EXPECT_THAT(told_, ElementsAre("100 at 100000 for 110000: kernel 110000"));
}

TEST_F(StallTrackerTest, StallsOfExitsThatAreNotChosenAreNotTold) {
  PipelineOptions how = options();
  how.wants = [](const ExitSpan& exit, const Pipeline&) { return exit.reason.reason == kSvmNpf; };
  Pipeline pipeline(std::move(how), {&sink_});
  for (const Event& event : {entry(1000), exit(100'000), entry(200'000), exit(400'000, kSvmNpf),
                             entry(500'000), exit(550'000), stop(550'100),
                             woken_by(600'000, kServer), switch_in(600'100), entry(600'200)})
    ASSERT_TRUE(pipeline.push(event));
  pipeline.finish(Timestamp(700'000));
  EXPECT_THAT(told_, ElementsAre("100 at 400000 for 100000: kernel 100000"));
}

TEST_F(StallTrackerTest, TimeInWhichTheVcpuReclaimsMemoryIsToldAsThat) {
  play({entry(1000), exit(100'000), memory(110'000, HostStep::kReclaimBegin),
        switch_out(120'000, false), woken_by(140'000, kServer), switch_in(150'000),
        memory(160'000, HostStep::kReclaimEnd), memory(170'000, HostStep::kCompactionBegin),
        memory(190'000, HostStep::kCompactionEnd), entry(200'000)});
  EXPECT_THAT(until(300'000),
              ElementsAre("100 at 100000 for 100000: kernel 30000, kernel in reclaim 20000, "
                          "blocked by 8 in reclaim 20000, kernel in compaction 20000, "
                          "preempted by 7 in reclaim 10000"));
}

TEST_F(StallTrackerTest, WorkWithoutItsEndOrBeginningOfAnotherThreadOrAcrossALossIsNotTold) {
  play({entry(1000), exit(100'000), memory(110'000, HostStep::kReclaimBegin), entry(200'000)});
  play({exit(300'000), memory(310'000, HostStep::kReclaimEnd), entry(400'000)});
  play({exit(500'000), memory(510'000, HostStep::kReclaimBegin, kServer),
        memory(590'000, HostStep::kReclaimEnd, kServer), entry(600'000)});
  play({exit(700'000), memory(710'000, HostStep::kReclaimBegin), lost(0, 720'000, 720'001),
        memory(730'000, HostStep::kReclaimEnd), entry(800'000)});
  play({exit(900'000), memory(910'000, HostStep::kReclaimBegin),
        memory(920'000, HostStep::kCompactionEnd), memory(930'000, HostStep::kReclaimEnd),
        entry(1'000'000)});
  for (const std::string& stall : until(1'100'000)) EXPECT_THAT(stall, Not(HasSubstr(" in ")));
  EXPECT_EQ(told_.size(), 5u);  // one is cut by the loss
}

TEST_F(StallTrackerTest, PageFaultsThatComeAgainAndAgainWhileMemoryIsUnmappedAreInVain) {
  play({entry(1000), memory(90'000, HostStep::kUnmap, kServer)});
  for (const std::uint64_t at : {100'000u, 121'000u, 142'000u, 163'000u})
    fault(at, 20'000, 0x7000, 0x40);
  EXPECT_THAT(until(200'000), ElementsAre("100 at 100000 for 83000 in 4 exits, 4 faults: kernel "
                                          "40000, kernel in vain 40000, guest 3000"));
}

TEST_F(StallTrackerTest, PageFaultsAreInVainInAnUnmapThatBeganOrEndedInThem) {
  play({entry(1000)});
  fault(100'000, 20'000, 0x7000, 0x40);
  fault(121'000, 20'000, 0x7000, 0x40);
  play({make(142'000, 0, kVcpu0, KvmExit{kSvmNpf, kSvm, 0, 0, 0x40}), page_fault(142'000, 0x7000),
        memory(145'000, HostStep::kUnmap, kServer), sleeps(150'000, kServer), entry(162'000)});
  fault(163'000, 20'000, 0x7000, 0x40);
  fault(184'000, 20'000, 0x7000, 0x40);
  EXPECT_THAT(until(300'000), ElementsAre("100 at 100000 for 104000 in 5 exits, 5 faults: kernel "
                                          "80000, kernel in vain 20000, guest 4000"));
}

TEST_F(StallTrackerTest, ThatPageFaultsWereInVainIsNotToldOfOtherReasons) {
  constexpr std::uint32_t kSetMemory = 0x4020ae46;
  const auto faults = [&](std::uint64_t at) {
    for (int i = 0; i < 4; ++i) fault(at + static_cast<std::uint64_t>(i) * 21'000, 20'000, 7, 8);
  };
  play({entry(1000)});
  faults(100'000);  // no unmap
  play({memory(290'000, HostStep::kUnmap, kServer), sleeps(295'000, kServer)});
  faults(300'000);  // it has ended
  play({memory(490'000, HostStep::kUnmap, kServer), ioctl(495'000, kKworker, kSetMemory)});
  faults(500'000);  // a memory slot is changed
  play({memory(690'000, HostStep::kUnmap, kServer)});
  for (const std::uint64_t at : {700'000u, 721'000u, 742'000u, 763'000u}) {  // the vCPU sleeps
    play({make(at, 0, kVcpu0, KvmExit{kSvmNpf, kSvm, 0, 0, 8}), page_fault(at, 7),
          switch_out(at + 1000, false), woken_by(at + 9000, kKworker), switch_in(at + 9500),
          entry(at + 20'000)});
  }
  play({sleeps(990'000, kServer)});
  for (const std::uint64_t at : {1'000'000u, 1'021'000u, 1'042'000u, 1'063'000u}) {  // it copies
    play({make(at, 0, kVcpu0, KvmExit{kSvmNpf, kSvm, 0, 0, 6}), page_fault(at, 7),
          memory(at + 1000, HostStep::kUnmap), entry(at + 20'000)});
  }
  play({memory(1'290'000, HostStep::kUnmap, kServer)});
  fault(1'300'000, 20'000, 7, 8);  // it comes but twice, and another one
  fault(1'321'000, 20'000, 7, 8);
  fault(1'342'000, 20'000, 9, 8);
  for (const std::string& stall : until(1'500'000)) EXPECT_THAT(stall, Not(HasSubstr("vain")));
  EXPECT_EQ(told_.size(), 6u);
}

TEST_F(StallTrackerTest, TheKernelsTimeInAnExitForALoggedWriteIsToldAsThat) {
  constexpr std::uint32_t kPmlFull = 62, kVmx = 1;
  play({entry(1000), exit(100'000, kSvmNpf), memory(110'000, HostStep::kLoggedWrite),
        switch_out(120'000, true), switch_in(130'000), entry(150'000)});
  play({exit(300'000, kSvmNpf), memory(310'000, HostStep::kLoggedWrite, kVcpu1), entry(320'000)});
  play({make(500'000, 0, kVcpu0, KvmExit{kPmlFull, kVmx, 0, 0, 0x40}), entry(530'000)});
  play({make(700'000, 0, kVcpu0, KvmExit{kPmlFull, kSvm, 0, 0, 0x40}), entry(730'000)});
  EXPECT_THAT(until(800'000),
              ElementsAre("100 at 100000 for 50000: kernel logged 40000, preempted by 7 10000",
                          "100 at 300000 for 20000: kernel 20000",
                          "100 at 500000 for 30000: kernel logged 30000",
                          "100 at 700000 for 30000: kernel 30000"));
}

TEST_F(StallTrackerTest, UntilUserSpaceHasReadTheFullRingOfDirtyPagesAllIsForTheLog) {
  play({entry(1000), exit(100'000, kSvmNpf), memory(110'000, HostStep::kDirtyRingFull),
        memory(111'000, HostStep::kReclaimEnd), switch_out(120'000, false),
        woken_by(140'000, kServer), switch_in(150'000), entry(160'000), exit(300'000),
        entry(330'000)});
  EXPECT_THAT(until(400'000),
              ElementsAre("100 at 100000 for 60000: kernel logged 20000, blocked by 8 logged "
                          "20000, kernel 10000, preempted by 7 logged 10000",
                          "100 at 300000 for 30000: kernel 30000"));
}

TEST_F(StallTrackerTest, SleepsThatEndInACollapseOfPagesAreToldAsThatSinceItBegan) {
  play({entry(1000), exit(100'000, kSvmNpf), page_fault(100'100, 0x7000),
        switch_out(110'000, false), memory(120'000, HostStep::kUnmap, kServer),
        memory(130'000, HostStep::kCollapse, kServer), woken_by(150'000, kServer),
        switch_in(151'000), memory(152'000, HostStep::kCollapseEnd, kServer), entry(160'000)});
  EXPECT_THAT(until(400'000),
              ElementsAre("100 at 100000 for 60000: blocked by 8 in collapse 30000, kernel "
                          "19000, blocked by 8 10000, preempted by 7 1000"));
}

TEST_F(StallTrackerTest, AWorkerThatWaitedForTheCollapseStandsForIt) {
  play({entry(1000), exit(100'000, kSvmNpf), page_fault(100'100, 0x7000),
        switch_out(110'000, false), sleeps(111'000, kKworker),
        memory(112'000, HostStep::kUnmap, kServer), memory(113'000, HostStep::kCollapse, kServer),
        woken_by(140'000, kServer, kKworker), woken_by(150'000, kKworker), switch_in(150'000),
        entry(160'000)});
  ASSERT_EQ(until(400'000).size(), 1u);
  EXPECT_THAT(told_[0], HasSubstr("in collapse 28000"));
}

TEST_F(StallTrackerTest, SleepsThatEndBesideACollapseAreNone) {
  const auto sleep = [&](std::uint64_t at, ThreadId by) {
    play({exit(at, kSvmNpf), switch_out(at + 1000, false), woken_by(at + 20'000, by),
          switch_in(at + 20'500), entry(at + 30'000)});
  };
  const auto collapse = [&](std::uint64_t at) {
    play({memory(at, HostStep::kUnmap, kServer), memory(at + 10, HostStep::kCollapse, kServer)});
  };
  play({entry(1000)});
  collapse(90'000);
  sleep(100'000, kKworker);  // somebody else woke it
  collapse(290'000);
  play({memory(291'000, HostStep::kCollapseEnd, kServer)});
  sleep(300'000, kServer);  // it had ended
  collapse(490'000);
  play({sleeps(491'000, kServer)});
  sleep(500'000, kServer);
  play({memory(690'000, HostStep::kUnmap, kServer)});
  sleep(700'000, kServer);  // it only unmapped
  play({memory(890'000, HostStep::kCollapse, kServer), lost(0, 891'000, 891'001)});
  for (const std::string& stall : until(900'000)) EXPECT_THAT(stall, Not(HasSubstr("collapse")));
  EXPECT_EQ(told_.size(), 4u);
}

TEST(StallShares, BeyondTheMostTheTimeStaysAndTheCulpritIsUnknown) {
  StallShares shares;
  for (std::int32_t i = 1; i <= 100; ++i)
    shares.add({StallCause::kBlocked, {.kind = CulpritKind::kThread, .thread = ThreadId{i}}, 10});
  EXPECT_EQ(shares.total(), 1000u);
  const std::vector<StallShare> sorted = shares.largest_first();
  EXPECT_EQ(sorted.size(), StallShares::kMost + 1);
  EXPECT_EQ(sorted.front().culprit, unknown_for(Missing::kRoom));
  EXPECT_EQ(sorted.front().ns, 360u);
}

}  // namespace
}  // namespace trapline::test
