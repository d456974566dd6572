// Every nanosecond of a vCPU's thread is in one state.
#include <gmock/gmock.h>

#include "merge/analyze/exit_tracker.h"
#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint32_t kSvmIdleHlt = 0xa6, kSvmVmrun = 0x80;
constexpr std::int32_t kTryAgain = -11;

Event halt_ended(std::uint64_t at, std::uint64_t ns, bool waited) {
  return make(at, 0, kVcpu0, KvmVcpuWakeup{ns, waited, true});
}
Event leave(std::uint64_t at, SchedSwitch::Left why) {
  return make(at, 0, kVcpu0, SchedSwitch{kVcpu0, kOtherThread, false, "other", why});
}
Event created(std::uint64_t at) { return make(at, 0, kOtherThread, NewThread{kVcpu0, true}); }
Event arm64_exit(std::uint64_t at, std::uint32_t exception_class) {
  return make(at, 0, kVcpu0, KvmExit{2, kIsaArm64, exception_class, 0, 0x40});
}

// Sums and intervals are kept in different ways, and are the same.
class VcpuStatesTest : public testing::TestWithParam<Detail> {
 protected:
  VcpuStatesTest() { model_.user_end = UserEnd::kIoctl; }
  void play(std::initializer_list<Event> events) {
    if (!tracker_) tracker_.emplace(model_, reader_, GetParam());
    for (const Event& event : events) {
      if (const ExitSpan* span = tracker_->on(event, threads_.on(event))) {
        spans_.push_back(*span);
        if (GetParam() == Detail::kIntervals) expect_whole(*span);
      }
    }
  }
  // The intervals of an exit's parts follow one another from its begin to its end; each is as long
  // as it can be.
  static void expect_whole(const ExitSpan& span) {
    Timestamp at = span.start;
    std::optional<Part> before;
    for (const PartInterval& interval : span.intervals) {
      EXPECT_EQ(interval.begin, at);
      EXPECT_LT(interval.begin, interval.end);
      EXPECT_NE(interval.part, before);
      at = interval.end;
      before = interval.part;
    }
    EXPECT_EQ(at, span.end);
  }
  // Ends the recording; the states are its time.
  VcpuTotals end(std::uint64_t at) {
    tracker_->close(Timestamp(at));
    while (const ExitSpan* span = tracker_->finish()) spans_.push_back(*span);
    const std::vector<VcpuTotalsOf> all = tracker_->vcpus();
    EXPECT_THAT(all, SizeIs(1));
    if (all.empty()) return {};
    EXPECT_EQ(all[0].totals.time_ns(), elapsed(all[0].totals.begin, all[0].totals.end));
    return all[0].totals;
  }
  // Ends the figures at `at`, in a recording that goes on with these events.
  VcpuTotals end_before(std::uint64_t at, std::initializer_list<Event> events) {
    tracker_->end_at(Timestamp(at));
    for (const Event& event : events) tracker_->settle(event, threads_.on(event));
    EXPECT_FALSE(tracker_->awaits());
    return end(at);
  }
  [[nodiscard]] std::uint64_t part(Part which, std::size_t span = 0) const {
    return spans_.at(span).parts[static_cast<std::size_t>(which)];
  }

  Names names_;
  VmmEventReader reader_{names_};
  ExitModel model_;
  Threads threads_{nullptr};
  std::optional<ExitTracker> tracker_;
  std::vector<ExitSpan> spans_;
};
INSTANTIATE_TEST_SUITE_P(Detail, VcpuStatesTest,
                         testing::Values(Detail::kSums, Detail::kIntervals));

TEST_P(VcpuStatesTest, AHaltIsHaltedUntilItsWakeUpAndThenPreempted) {
  play({entry(50), exit(100, kSvmHlt), switch_out(110, false), wake(150), switch_in(170),
        entry(175)});
  EXPECT_TRUE(spans_[0].halt);
  EXPECT_EQ(part(Part::kHalted), 40u);
  EXPECT_EQ(part(Part::kPreempted), 20u);
  EXPECT_EQ(part(Part::kKernel), 10u + 5u);
  EXPECT_EQ(part(Part::kBlocked), 0u);
  EXPECT_FALSE(tracker_->saw_waits_in_halts());
}

TEST_P(VcpuStatesTest, BetweenTheFirstSleepAndTheLastWakeUpOfAHaltAllIsHalted) {
  play({exit(100, kSvmHlt), switch_out(110, false), wake(120), switch_in(130), to_user(135),
        run_ioctl(138), switch_out(140, false), wake(190), switch_in(195), entry(200)});
  EXPECT_EQ(part(Part::kHalted), 80u);
  EXPECT_EQ(part(Part::kPreempted), 5u);
  EXPECT_EQ(part(Part::kKernel), 10u + 5u);
  EXPECT_EQ(part(Part::kUser), 0u);
  EXPECT_TRUE(tracker_->saw_waits_in_halts());
}

TEST_P(VcpuStatesTest, APollThatWonIsHalted) {
  play({exit(100, kSvmHlt), halt_ended(160, 50, false), entry(170)});
  EXPECT_FALSE(tracker_->saw_waits_in_halts());
  EXPECT_EQ(part(Part::kHalted), 50u);
  EXPECT_EQ(part(Part::kKernel), 10u + 10u);
}

TEST_P(VcpuStatesTest, APollBeforeTheSleepIsHalted) {
  play({exit(100, kSvmHlt), switch_out(130, false), wake(160), switch_in(170),
        halt_ended(175, 65, true), entry(180)});
  EXPECT_EQ(part(Part::kHalted), 50u);  // from 110 to 160
  EXPECT_EQ(part(Part::kPreempted), 10u);
  EXPECT_EQ(part(Part::kKernel), 10u + 10u);
}

TEST_P(VcpuStatesTest, AHaltEndsWhereKvmEndsItWhereTheSwitchIsNotRecorded) {
  play({exit(100, kSvmHlt), switch_out(110, false), halt_ended(150, 40, true), entry(160)});
  EXPECT_EQ(part(Part::kHalted), 40u);
  EXPECT_EQ(part(Part::kKernel), 10u + 10u);
}

TEST_P(VcpuStatesTest, AWakeUpOfAThreadThatDoesNotSleepEndsNoHalt) {
  play({exit(100, kSvmHlt), wake(130), halt_ended(160, 55, true), entry(170)});
  EXPECT_EQ(part(Part::kHalted), 55u);
}

TEST_P(VcpuStatesTest, AnOpenExitIsAHaltWhereOthersOfItsReasonWere) {
  play({exit(100, kSvmVmrun), nested(101, NestedStep::kEnter), switch_out(110, false), wake(150),
        switch_in(160), halt_ended(165, 55, true), entry(170), exit(200, kSvmVmrun),
        switch_out(210, false)});
  EXPECT_EQ(end(300).parts[static_cast<std::size_t>(Part::kHalted)], 40u + 90u);
  ASSERT_THAT(tracker_->unended(), SizeIs(1));
  EXPECT_TRUE(tracker_->unended()[0].span.halt);
  EXPECT_EQ(tracker_->vcpus()[0].totals.open, State::kHalted);
}

TEST_P(VcpuStatesTest, TheGuestThatRunsAtTheEndIsOpen) {
  play({entry(50)});
  const VcpuTotals totals = end(90);
  EXPECT_EQ(totals.open, State::kGuest);
  EXPECT_EQ(totals.open_ns, 40u);
}

TEST_P(VcpuStatesTest, AHaltIsNeverLongerThanItsExit) {
  play({exit(100, kSvmHlt), halt_ended(160, 5'000, false), entry(170)});
  EXPECT_EQ(part(Part::kHalted), 60u);
}

TEST_P(VcpuStatesTest, WithoutWakeUpsAHaltEndsWhenTheThreadRuns) {
  model_.wakeups = false;
  play({exit(100, kSvmHlt), switch_out(110, false), switch_in(170), entry(175)});
  EXPECT_EQ(part(Part::kHalted), 60u);
  EXPECT_TRUE(tracker_->saw_halts());
}

TEST_P(VcpuStatesTest, WhereNothingTellsOfItsSleepAHaltIsHaltedAsAWhole) {
  model_.sched_switch = false;
  play({exit(100, kSvmHlt), entry(175), exit(200, kSvmHlt), halt_ended(240, 30, true), entry(250)});
  EXPECT_EQ(part(Part::kHalted), 75u);
  EXPECT_EQ(part(Part::kHalted, 1), 30u);
  EXPECT_TRUE(tracker_->saw_whole_halts());
}

TEST_P(VcpuStatesTest, AHaltThatTheRecordingEndsInIsHaltedAsAWholeToo) {
  model_.sched_switch = false;
  play({entry(50), exit(100, kSvmHlt)});
  const auto now = tracker_->vcpus_at(Timestamp(160));
  ASSERT_THAT(now, SizeIs(1));
  constexpr auto kHalted = static_cast<std::size_t>(State::kHalted);
  EXPECT_EQ(now[0].totals.parts[kHalted], 60u);
  EXPECT_EQ(now[0].totals.time_ns(), 110u);
  const VcpuTotals totals = end(200);
  EXPECT_EQ(totals.parts[kHalted], 100u);
  EXPECT_EQ(totals.open, State::kHalted);
  EXPECT_EQ(totals.open_ns, 100u);
}

TEST_P(VcpuStatesTest, WhereTimesAreCyclesTheTimeOfAPollIsNotPlaced) {
  model_.cycles = true;
  play({exit(100, kSvmHlt), halt_ended(160, 50, false), entry(170), exit(200, kSvmHlt),
        switch_out(210, false), wake(250), switch_in(255), halt_ended(256, 1, true), entry(260)});
  EXPECT_EQ(part(Part::kHalted), 0u);
  EXPECT_EQ(part(Part::kHalted, 1), 40u);
}

TEST_P(VcpuStatesTest, IdleHltIsAHaltAndWfeIsNone) {
  constexpr std::uint32_t kWfx = 1;
  play({exit(100, kSvmIdleHlt), entry(110), arm64_exit(200, kWfx),
        make(201, 0, kVcpu0, KvmWfx{true}), entry(210), arm64_exit(300, kWfx),
        make(301, 0, kVcpu0, KvmWfx{false}), entry(310)});
  EXPECT_TRUE(spans_[0].halt);
  EXPECT_FALSE(spans_[1].halt);
  EXPECT_TRUE(spans_[2].halt);
}

TEST_P(VcpuStatesTest, ANestedGuestsHaltIsOneWhereItIsServedHere) {
  using enum NestedStep;
  play({exit(100, kSvmHlt), nested(101, kExit), nested(102, kPassOn), entry(110),
        exit(200, kSvmHlt), nested(201, kExit), switch_out(210, false), wake(240), switch_in(250),
        entry(260)});
  EXPECT_FALSE(spans_[0].halt);
  EXPECT_TRUE(spans_[1].halt);
  EXPECT_EQ(part(Part::kHalted, 1), 30u);
}

TEST_P(VcpuStatesTest, AnEntryIntoTheHltStateIsAHalt) {
  play({halt_ended(10, 5, true)});  // of a thread that is not known
  play({exit(100, kSvmVmrun), nested(105, NestedStep::kEnter), switch_out(120, false), wake(150),
        switch_in(155), halt_ended(158, 48, true), entry(160), exit(200, kSvmVmrun),
        nested(205, NestedStep::kEnter), entry(210)});
  EXPECT_TRUE(spans_[0].halt);
  EXPECT_EQ(part(Part::kHalted), 40u);  // from 110
  EXPECT_EQ(part(Part::kBlocked), 0u);
  EXPECT_FALSE(spans_[1].halt);
  EXPECT_TRUE(tracker_->saw_halts());
}

TEST_P(VcpuStatesTest, ASwitchInTheGuestEndsItsRunAndBeginsTheExit) {
  play({entry(100), switch_out(150, true), switch_in(200), exit(205, kSvmNpf), entry(220)});
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(spans_[0].start.ns(), 150u);
  EXPECT_EQ(spans_[0].reason.reason, kSvmNpf);
  EXPECT_EQ(part(Part::kPreempted), 50u);
  EXPECT_EQ(part(Part::kKernel), 5u + 15u);
  EXPECT_EQ(end(230).guest_ns, 50u + 10u);
}

TEST_P(VcpuStatesTest, TheGuestsRunIsHandedOutWhenItsThreadIsSwitchedOut) {
  play({entry(100), switch_out(150, true)});
  ASSERT_NE(tracker_->guest_run(), nullptr);
  EXPECT_EQ(tracker_->guest_run()->end.ns(), 150u);
  play({switch_in(200), exit(205)});
  EXPECT_EQ(tracker_->guest_run(), nullptr);
}

TEST_P(VcpuStatesTest, AnExitThatBeganWithASwitchIsHaltedFromItsKvmExitOn) {
  play({entry(100), switch_out(150, true), switch_in(200), exit(205, kSvmHlt),
        halt_ended(260, 500, false), entry(270)});
  EXPECT_EQ(part(Part::kHalted), 55u);
  EXPECT_EQ(part(Part::kPreempted), 50u);
}

TEST_P(VcpuStatesTest, AVcpuIsOfflineFromItsCreationToItsFirstEntry) {
  play({created(20), reload(60), switch_out(70, false), wake(90), switch_in(95), entry(100)});
  const VcpuTotals totals = end(110);
  EXPECT_EQ(totals.begin.ns(), 20u);
  EXPECT_EQ(totals.offline_ns, 80u);
  EXPECT_EQ(totals.guest_ns, 10u);
}

// Its first entries and exits may not have been recorded.
TEST_P(VcpuStatesTest, AVcpuThatIsSeenInKvmIsNotOffline) {
  for (const bool told : {false, true}) {  // that it waits to be started
    tracker_.reset();
    play({created(20), told ? reload(60) : marker(60, kReadRtc), port(70, 0x3f8), to_user(72),
          entry(100)});
    const VcpuTotals totals = end(110);
    EXPECT_EQ(totals.offline_ns, 50u);
    EXPECT_EQ(totals.not_seen_ns, 30u);
    EXPECT_EQ(totals.guest_ns, 10u);
  }
}

TEST_P(VcpuStatesTest, AnExitToUserSpaceShowsThatAVcpuRanUnlessItHasToTryAgain) {
  for (const bool again : {false, true}) {
    tracker_.reset();
    play({created(20), reload(60), make(72, 0, kVcpu0, KvmUserspaceExit{2, again ? kTryAgain : 0}),
          entry(100)});
    EXPECT_EQ(end(110).offline_ns, again ? 80u : 52u);
  }
}

// An event of KVM may be the first that is seen of a thread.
TEST_P(VcpuStatesTest, TheTimeOfAVcpuBeginsWithItsCreationOrWhatOnlyVcpusDo) {
  play({created(20), to_user(72), entry(100)});
  EXPECT_EQ(end(110).offline_ns, 52u);
  tracker_.reset();
  play({to_user(72), entry(100)});
  EXPECT_EQ(end(110).begin.ns(), 100u);
  tracker_.reset();
  play({reload(60), entry(100)});
  EXPECT_EQ(end(110).begin.ns(), 60u);
}

TEST_P(VcpuStatesTest, AThreadThatNeverEntersTheGuestRunsNoVcpu) {
  play({created(20), reload(60), marker(70, kReadRtc)});
  EXPECT_THAT(tracker_->vcpus(), IsEmpty());
  EXPECT_EQ(tracker_->state(kVcpu0), std::nullopt);
}

TEST_P(VcpuStatesTest, WaitingForSipiIsOfflineAndItsExitIsNoSpan) {
  play({entry(50), exit(100), to_user(110), run_ioctl(150), reload(151), switch_out(160, false),
        wake(400), switch_in(410), make(420, 0, kVcpu0, KvmUserspaceExit{0, kTryAgain}),
        run_ioctl(430), reload(431), entry(440)});
  EXPECT_THAT(spans_, IsEmpty());
  EXPECT_EQ(tracker_->counters().exits_stopped, 1u);
  const VcpuTotals totals = end(450);
  EXPECT_EQ(totals.offline_ns, 240u);
  EXPECT_EQ(totals.parts[static_cast<std::size_t>(Part::kBlocked)], 0u);
}

TEST_P(VcpuStatesTest, OnArm64AVcpuThatIsSwitchedOffIsOffline) {
  constexpr std::uint32_t kHvc64 = 0x16;
  constexpr std::uint64_t kCpuOff = 0x84000002;
  play({entry(50), arm64_exit(100, kHvc64),
        make(101, 0, kVcpu0, KvmDetail{kCpuOff, 0, DetailKind::kHypercall, Access::kNone, false}),
        switch_out(110, false), wake(500), switch_in(505), entry(510)});
  EXPECT_THAT(spans_, IsEmpty());
  EXPECT_EQ(end(520).offline_ns, 390u);
}

TEST_P(VcpuStatesTest, AThreadThatComesWithoutHavingLeftIsNotSeenUntilThen) {
  play({entry(50), exit(100, kSvmHlt), wake(300), switch_in(310), entry(320), exit(400),
        switch_in(450), entry(460)});
  EXPECT_THAT(spans_, IsEmpty());
  EXPECT_EQ(tracker_->counters().exit_without_entry, 2u);
  EXPECT_EQ(tracker_->counters().entry_without_exit, 3u);
  const VcpuTotals totals = end(470);
  EXPECT_EQ(totals.guest_ns, 50u + 80u + 10u);
  EXPECT_EQ(totals.not_seen_ns, 220u + 60u);
}

TEST_P(VcpuStatesTest, WhetherAVcpuWasPausedIsToldByTheVmmsEventAlone) {
  const auto knows = [this](State state) -> bool {
    return tracker_->known_states()[static_cast<std::size_t>(state)];
  };
  play({entry(50), exit(100), entry(110)});
  EXPECT_TRUE(knows(State::kOffline));
  EXPECT_FALSE(knows(State::kPaused));
  play({marker(120, "vm_state_notify running 1 reason 9 (running)")});
  EXPECT_TRUE(knows(State::kPaused));
}

// The stop is reported after the vCPUs sleep, the start before they are woken.
TEST_P(VcpuStatesTest, AllVcpusOfTheVmmThatStoppedThemArePaused) {
  const ThreadId main{99}, other{50};
  Processes processes;
  for (const ThreadId thread : {main, kVcpu0}) processes.set(thread, main);
  processes.set(other, other);
  tracker_.emplace(model_, reader_, GetParam(), &processes);
  const auto sleeps = [this](std::uint64_t at, ThreadId thread) {
    play(
        {exit(at, kSvmIo, thread), to_user(at + 5, 2, thread), switch_out(at + 10, false, thread)});
  };
  const auto paused = [this](std::size_t vcpu, std::uint64_t now) {
    return tracker_->vcpus_at(Timestamp(now)).at(vcpu).totals.paused_ns;
  };
  play({entry(50), entry(50, kVcpu1)});
  sleeps(100, kVcpu0), sleeps(100, kVcpu1);
  play({marker(150, "vm_state_notify running 0 reason 4 (paused)\n", other)});
  EXPECT_EQ(paused(0, 160), 0u) << "another VM";
  processes.set(kVcpu1, main);  // is known from now on
  play({marker(200, "vm_state_notify running 0 reason 4 (paused)\n", main)});
  EXPECT_EQ(paused(0, 300), 190u);
  EXPECT_EQ(paused(1, 300), 190u);
  play({marker(400, "vm_state_notify running 1 reason 9 (running)\n", main), wake(410),
        switch_in(420), run_ioctl(430), entry(440)});
  EXPECT_EQ(paused(0, 500), 300u);
  // A loss may hide the start of a later stop.
  play({marker(510, "vm_state_notify running 0 reason 4 (paused)\n", main), lost(0, 520, 530),
        entry(540)});
  sleeps(600, kVcpu0);
  EXPECT_EQ(paused(0, 700), 300u);
}

TEST_P(VcpuStatesTest, AVcpuThatStillRunsInTheVmmIsPausedFromItsSleepOn) {
  const ThreadId main{99};
  Processes processes;
  for (const ThreadId thread : {main, kVcpu0}) processes.set(thread, main);
  tracker_.emplace(model_, reader_, GetParam(), &processes);
  play({entry(50), exit(100), to_user(105),
        marker(150, "vm_state_notify running 0 reason 4 (paused)\n", main)});
  EXPECT_EQ(tracker_->vcpus_at(Timestamp(160)).at(0).totals.paused_ns, 0u);
  play({switch_out(170, false)});
  EXPECT_EQ(tracker_->vcpus_at(Timestamp(300)).at(0).totals.paused_ns, 130u);
}

TEST_P(VcpuStatesTest, TheFirstExitAfterASwitchCountsWhereNothingWasLost) {
  for (const bool known : {false, true}) {  // the thread, before the switch
    tracker_.reset();
    spans_.clear();
    if (known) play({created(10), reload(20), switch_out(30, false), wake(40)});
    play({switch_in(50), exit(100), entry(150)});
    EXPECT_THAT(spans_, SizeIs(1));
    EXPECT_EQ(tracker_->counters().closed_by_loss, 0u);
  }
}

TEST_P(VcpuStatesTest, AThreadThatGotTheIdOfOneThatEndedRunsItsGuestFromItsOwnEntryOn) {
  play({entry(50), exit(100), leave(200, SchedSwitch::Left::kDead), entry(300), exit(340)});
  EXPECT_EQ(tracker_->vcpus()[0].totals.guest_ns, 50u + 40u);
}

TEST_P(VcpuStatesTest, OfAThreadThatComesWithoutHavingLeftNoTimeOfItsExitIsSeen) {
  play({entry(50), exit(100), to_user(150), switch_in(310), entry(320)});
  const VcpuTotals totals = end(330);
  EXPECT_EQ(totals.not_seen_ns, 220u);
  EXPECT_EQ(totals.parts, Parts());
}

TEST_P(VcpuStatesTest, AnExitIsClosedByOneLossOnly) {
  play({entry(50), exit(100), lost(0, 110, 120), lost(0, 130, 140)});
  EXPECT_EQ(tracker_->counters().closed_by_loss, 1u);
}

TEST_P(VcpuStatesTest, WhatIsNotSeenAfterALossIsOneRunWhateverElseIsLost) {
  play({entry(50), exit(100), lost(0, 110, 120), lost(0, 130, 140), entry(200)});
  if (GetParam() == Detail::kSums) return;
  ASSERT_THAT(tracker_->state_runs(), SizeIs(1));
  EXPECT_EQ(tracker_->state_runs()[0].begin.ns(), 110u);
  EXPECT_EQ(tracker_->state_runs()[0].end.ns(), 200u);
}

TEST_P(VcpuStatesTest, WithoutExitsToUserSpaceNothingTellsWhetherAVcpuIsOffline) {
  model_.userspace_exits = false;
  play({entry(50), exit(100), entry(110)});
  EXPECT_FALSE(tracker_->known_states()[static_cast<std::size_t>(State::kOffline)]);
}

TEST_P(VcpuStatesTest, TheTimeUpToNowHasEachExitOnce) {
  play({entry(50), exit(100), entry(150)});
  EXPECT_EQ(tracker_->vcpus_at(Timestamp(200)).at(0).totals.time_ns(), 150u);
  play({exit(300, kSvmIo)});
  EXPECT_EQ(tracker_->vcpus_at(Timestamp(340)).at(0).totals.time_ns(), 290u);
}

TEST_P(VcpuStatesTest, WhetherAVcpuWasOfflineIsToldOnArm64ByItsCallsAlone) {
  const auto knows = [this]() -> bool {
    return tracker_->known_states()[static_cast<std::size_t>(State::kOffline)];
  };
  play({entry(50), arm64_exit(100, 1), entry(110)});
  EXPECT_FALSE(knows());
  play({arm64_exit(120, 0x16),
        make(121, 0, kVcpu0,
             KvmDetail{0x84000000, 0, DetailKind::kHypercall, Access::kNone, false})});
  EXPECT_TRUE(knows());
}

TEST_P(VcpuStatesTest, AStoppedThreadIsPausedUntilItIsWoken) {
  play({entry(50), exit(100), to_user(110), leave(120, SchedSwitch::Left::kStopped), wake(900),
        switch_in(910), run_ioctl(920), entry(930), exit(950), entry(960)});
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(spans_[0].start.ns(), 950u);
  EXPECT_EQ(tracker_->counters().exits_stopped, 1u);
  const VcpuTotals totals = end(970);
  EXPECT_EQ(totals.paused_ns, 780u);
  EXPECT_EQ(totals.parts[static_cast<std::size_t>(Part::kPreempted)], 10u);
  Overhead overhead;
  overhead.add(totals);
  EXPECT_EQ(overhead.exit_ns, 10u + 10u + 20u + 10u);
}

TEST_P(VcpuStatesTest, TheTimeEndsWithTheThread) {
  play({entry(50), exit(100), to_user(110), leave(200, SchedSwitch::Left::kDead)});
  const VcpuTotals totals = end(1'000);
  EXPECT_EQ(totals.end.ns(), 200u);
  EXPECT_EQ(totals.open, std::nullopt);
  EXPECT_EQ(totals.offline_ns, 100u);
  EXPECT_EQ(tracker_->counters().exits_stopped, 1u);
  EXPECT_EQ(tracker_->counters().exit_without_entry, 0u);
  Overhead overhead;
  overhead.add(totals);
  EXPECT_EQ(overhead.exit_ns, 0u);  // it never ended
}

TEST_P(VcpuStatesTest, WhatAMachineWasHaltedBeforeItWasSwitchedOffItWasHalted) {
  play({entry(50), exit(100, kSvmHlt), switch_out(110, false), wake(500), switch_in(505),
        to_user(510), leave(600, SchedSwitch::Left::kDead)});
  const VcpuTotals totals = end(1'000);
  EXPECT_EQ(totals.parts[static_cast<std::size_t>(Part::kHalted)], 390u);
  EXPECT_EQ(totals.offline_ns, 10u + 5u + 5u + 90u);
  EXPECT_EQ(totals.time_ns(), 550u);
}

TEST_P(VcpuStatesTest, TheStateAtTheEndIsCarriedToItAndMarkedOpen) {
  play({entry(50), exit(100), switch_out(120, true)});
  EXPECT_EQ(tracker_->vcpus_at(Timestamp(300))[0].totals.parts, (Parts{20, 0, 180, 0, 0}));
  const VcpuTotals totals = end(300);
  EXPECT_EQ(totals.open, State::kPreempted);
  EXPECT_EQ(totals.open_ns, 200u);
  EXPECT_EQ(totals.parts, (Parts{20, 0, 180, 0, 0}));
}

TEST_P(VcpuStatesTest, AnExitWithoutItsEntryIsNotSeen) {
  play({entry(50), exit(100), to_user(120), exit(200), entry(210)});
  const VcpuTotals totals = end(220);
  EXPECT_EQ(totals.not_seen_ns, 100u);
  EXPECT_EQ(totals.guest_ns, 50u + 10u);
}

TEST_P(VcpuStatesTest, ARunWithoutItsExitIsNotSeen) {
  play({entry(50), entry(100), switch_out(110, true), switch_in(120), entry(130)});
  const VcpuTotals totals = end(140);
  EXPECT_EQ(totals.not_seen_ns, 50u + 20u);
  EXPECT_EQ(totals.guest_ns, 10u + 10u);
}

TEST_P(VcpuStatesTest, FromALossToTheNextEventNothingIsSeen) {
  play({entry(50), exit(100), lost(0, 130, 800), exit(900), entry(910)});
  const VcpuTotals totals = end(920);
  EXPECT_EQ(totals.parts[static_cast<std::size_t>(Part::kKernel)], 30u + 10u);
  EXPECT_EQ(totals.not_seen_ns, 770u);
}

TEST_P(VcpuStatesTest, AnExitWhoseBeginningALossHidIsNone) {
  play({entry(50), switch_out(60, true), lost(0, 60, 800), switch_in(900, kVcpu0, 1),
        exit(905, kSvmNpf, kVcpu0, 1), entry(920, kVcpu0, 1), exit(930, kSvmNpf, kVcpu0, 1),
        entry(940, kVcpu0, 1)});
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(spans_[0].start.ns(), 930u);
  EXPECT_EQ(tracker_->counters().exits, 2u);
  EXPECT_EQ(tracker_->counters().closed_by_loss, 1u);
  EXPECT_EQ(tracker_->counters().entry_without_exit, 2u);
}

// It was switched out in the guest and back before the loss: whether the kvm_exit is that one's or
// a later one's is lost.
TEST_P(VcpuStatesTest, AKvmExitThatWasOwedBeforeALossBeginsNoExit) {
  play({entry(50), switch_out(60, true), switch_in(100), lost(0, 100, 800), exit(900), entry(950),
        exit(960), entry(970)});
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(spans_[0].start.ns(), 960u);
  EXPECT_EQ(tracker_->counters().closed_by_loss, 1u);
}

// Where it was switched in, and left the guest, was lost.
TEST_P(VcpuStatesTest, AKvmExitThatWasOwedWhereAnotherCpusEventsAreLostBeginsNoExit) {
  play({entry(50), lost(1, 60, 100), switch_out(70, true), exit(120, kSvmIo, kVcpu0, 1),
        entry(150, kVcpu0, 1), exit(160, kSvmIo, kVcpu0, 1), entry(170, kVcpu0, 1)});
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(spans_[0].start.ns(), 160u);
}

// The same where the thread was not known to be a vCPU's: its entry was lost as well.
TEST_P(VcpuStatesTest, TheFirstExitOfAThreadIsNoneWhereALossHidItsBeginning) {
  play({lost(0, 60, 800), switch_in(900, kVcpu0, 1), exit(905, kSvmNpf, kVcpu0, 1),
        entry(920, kVcpu0, 1), exit(930, kSvmNpf, kVcpu0, 1), entry(940, kVcpu0, 1)});
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(spans_[0].start.ns(), 930u);
  EXPECT_EQ(tracker_->counters().closed_by_loss, 1u);
}

TEST_P(VcpuStatesTest, TheFirstExitOfAThreadCountsWhereItsSwitchIsNotTheLast) {
  play({lost(0, 60, 800), switch_in(900, kVcpu0, 1), switch_out(902, true, kVcpu0, 1),
        exit(905, kSvmNpf, kVcpu0, 1), entry(920, kVcpu0, 1)});
  EXPECT_THAT(spans_, SizeIs(1));
}

// Whether it entered the guest and left it in the second loss, nothing tells.
TEST_P(VcpuStatesTest, TheFirstExitOfAThreadIsNoneWhereALossFollowedItsSwitch) {
  play({lost(0, 60, 800), switch_in(900, kVcpu1, 1), lost(1, 901, 902),
        exit(905, kSvmNpf, kVcpu1, 1), entry(920, kVcpu1, 1)});
  EXPECT_THAT(spans_, IsEmpty());
}

TEST_P(VcpuStatesTest, WithoutSwitchesALossClosesEveryThread) {
  model_.sched_switch = false;
  play({entry(50), exit(100), lost(1, 130, 800), entry(900)});
  EXPECT_THAT(spans_, IsEmpty());
  EXPECT_EQ(tracker_->counters().closed_by_loss, 1u);
}

// The thread is next seen on the CPU whose events were lost.
TEST_P(VcpuStatesTest, UpToItsLastEventBeforeALossAThreadsStateIsKnown) {
  play({exit(100), port(150, 0x3f8), lost(1, 160, 800), entry(900, kVcpu0, 1)});
  const VcpuTotals totals = end(900);
  EXPECT_EQ(totals.parts[static_cast<std::size_t>(Part::kKernel)], 50u);
  EXPECT_EQ(totals.not_seen_ns, 750u);
}

TEST_P(VcpuStatesTest, WhereSwitchesBeginLateStatesAreKnownFromTheFirstOn) {
  constexpr std::uint64_t kLate = 10'000'000;
  model_.late_switches = true;
  play({entry(50), exit(60), entry(70), exit(kLate + 100), entry(kLate + 200)});
  EXPECT_EQ(tracker_->vcpus_at(Timestamp(kLate + 200))[0].totals.not_seen_ns, 140u);
  play({switch_in(kLate + 300, kVcpu1, 1), exit(kLate + 400)});
  const VcpuTotals totals = end(kLate + 450);
  EXPECT_EQ(totals.not_seen_ns, 240u);
  EXPECT_EQ(totals.guest_ns, 10 + (kLate - 10) + 100);
}

TEST_P(VcpuStatesTest, WhereASwitchComesInTimeNoneIsLate) {
  constexpr std::uint64_t kLate = 10'000'000;
  model_.late_switches = true;
  play({entry(50), switch_in(60, kVcpu1, 1), exit(70), entry(80), exit(kLate + 100)});
  EXPECT_EQ(end(kLate + 200).not_seen_ns, 0u);
  tracker_.reset();
  play({entry(50), exit(70), switch_in(kLate + 300, kVcpu1, 1)});  // the next event
  EXPECT_EQ(end(kLate + 400).not_seen_ns, 0u);
}

TEST_P(VcpuStatesTest, AnExitThatASwitchBeganBeforeTheFiguresIsNoSpanOfThem) {
  play({entry(50), switch_out(60, true)});
  tracker_->begin_at(Timestamp(100));
  play({switch_in(110), exit(120), entry(130)});
  EXPECT_THAT(spans_, IsEmpty());
  EXPECT_EQ(tracker_->counters().exit_without_entry, 1u);
  EXPECT_EQ(tracker_->counters().entry_without_exit, 1u);
  EXPECT_EQ(end(140).parts, (Parts{20, 0, 10, 0, 0}));
}

TEST_P(VcpuStatesTest, AThreadThatEndsAfterTheFiguresWasOfflineAtTheirEnd) {
  play({entry(50), exit(100), to_user(110)});
  const VcpuTotals totals = end_before(200, {leave(300, SchedSwitch::Left::kDead)});
  EXPECT_EQ(totals.offline_ns, 100u);
  EXPECT_EQ(totals.parts, (Parts{0, 0, 0, 0, 0}));
  EXPECT_EQ(totals.open, State::kOffline);
  EXPECT_EQ(totals.exits, 1u);
  EXPECT_EQ(tracker_->counters().exits_stopped, 0u);
  EXPECT_EQ(tracker_->counters().exit_without_entry, 1u);
}

TEST_P(VcpuStatesTest, AHaltThatEndsAfterTheFiguresWasOneAtTheirEnd) {
  play({entry(50), exit(100, kSvmNpf), switch_out(110, false)});
  const VcpuTotals totals = end_before(
      200, {wake(250), switch_in(260), halt_ended(270, 160, true), entry(280), exit(290)});
  EXPECT_EQ(totals.parts, (Parts{10, 0, 0, 0, 90}));
  EXPECT_EQ(totals.open, State::kHalted);
}

TEST_P(VcpuStatesTest, WhatBeginsAfterTheFiguresIsInNone) {
  play({entry(50), exit(100)});
  const VcpuTotals totals = end_before(200, {entry(300), exit(400), entry(410), exit(420)});
  EXPECT_EQ(totals.parts, (Parts{100, 0, 0, 0, 0}));
  EXPECT_EQ(totals.guest_ns, 50u);
  EXPECT_EQ(totals.open, State::kKernel);
  EXPECT_EQ(totals.open_ns, 100u);
  EXPECT_EQ(tracker_->counters().exits, 1u);
  EXPECT_THAT(spans_, IsEmpty());
}

TEST_P(VcpuStatesTest, ARunOfTheGuestThatDoesNotFitAfterTheFiguresIsNotSeen) {
  play({entry(50)});
  const VcpuTotals totals = end_before(200, {switch_out(300, false)});
  EXPECT_EQ(totals.guest_ns, 0u);
  EXPECT_EQ(totals.not_seen_ns, 150u);
}

TEST_P(VcpuStatesTest, AStateThatBeginsWithTheRecordingsEndIsNoRun) {
  play({entry(50), exit(100), entry(200)});
  (void)end(200);
  EXPECT_THAT(tracker_->state_runs(), IsEmpty());
}

TEST_P(VcpuStatesTest, ExitsWithoutAnInstructionPointerAreCounted) {
  const auto hidden = [](std::uint64_t at) {
    return make(at, 0, kVcpu0, KvmExit{kSvmNpf, kSvm, 0, 0, 0});
  };
  play({entry(50), hidden(100), entry(110), hidden(120), entry(130)});
  EXPECT_FALSE(end(140).rip_shown);
  play({exit(150), entry(160)});
  EXPECT_EQ(tracker_->vcpus()[0].totals.rip_hidden, 2u);
  EXPECT_THAT(tracker_->rip_shown(), testing::ElementsAre(kVcpu0));
}

TEST_P(VcpuStatesTest, WhatServedAnExitThatDidNotEndServedNotTheNextOne) {
  play({exit(100), to_user(110), marker(120, kReadRtc), exit(200), entry(210)});
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_THAT(spans_[0].handlers, IsEmpty());
}

TEST_P(VcpuStatesTest, WithoutKvmExitOnlyTheTimeInUserSpaceIsSeen) {
  model_.from_userspace_exit = true;
  model_.user_end = UserEnd::kReload;
  play({to_user(100), reload(150), to_user(200), reload(240)});
  const VcpuTotals totals = end(300);
  EXPECT_THAT(spans_, SizeIs(2));
  EXPECT_EQ(totals.parts[static_cast<std::size_t>(Part::kUser)], 90u);
  EXPECT_EQ(totals.not_seen_ns, 50u + 60u);
}

}  // namespace
}  // namespace trapline::test
