#include "merge/analyze/exit_tracker.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::string_view kWriteSerial =
    "memory_region_ops_write cpu 0 mr 0x55 addr 0x3f8 value 0x41 size 1 name 'serial'\n";

class ExitTrackerTest : public testing::Test {
 protected:
  void model(UserEnd end, bool from_userspace_exit = false) {
    model_.user_end = end;
    model_.from_userspace_exit = from_userspace_exit;
    tracker_.emplace(model_, reader_);
  }
  void play(std::initializer_list<Event> events) {
    if (!tracker_) tracker_.emplace(model_, reader_);
    for (const Event& event : events) {
      if (const ExitSpan* span = tracker_->on(event, threads_.on(event))) spans_.push_back(*span);
      note_unended();
    }
  }
  void note_unended() {
    for (const UnendedExit& exit : tracker_->unended()) unended_.push_back(exit);
  }
  void finish(Timestamp end) {
    tracker_->close(end);
    note_unended();
    while (const ExitSpan* span = tracker_->finish()) spans_.push_back(*span);
  }
  [[nodiscard]] std::string device(std::size_t span) const {
    return std::string(names_[spans_[span].device]);
  }
  [[nodiscard]] std::string handler(std::size_t span) const {
    return std::string(names_[spans_[span].vmm_event]);
  }
  [[nodiscard]] const ExitCounters& counters() const { return tracker_->counters(); }

  Names names_;
  VmmEventReader reader_{names_};
  ExitModel model_;
  Threads threads_{nullptr};
  std::optional<ExitTracker> tracker_;
  std::vector<ExitSpan> spans_;
  std::vector<UnendedExit> unended_;
};

// kernel, user, preempted, blocked, halted
auto parts(std::uint64_t kernel, std::uint64_t user, std::uint64_t preempted, std::uint64_t blocked,
           std::uint64_t halted = 0) {
  return ElementsAre(kernel, user, preempted, blocked, halted);
}

TEST_F(ExitTrackerTest, AnExitWithoutMoreIsKernelTime) {
  play({exit(100), entry(150)});
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(spans_[0].total(), 50u);
  EXPECT_THAT(spans_[0].parts, parts(50, 0, 0, 0));
  EXPECT_EQ(spans_[0].rip, 0x1000u);
  EXPECT_EQ(spans_[0].vcpu, 0);
}

TEST_F(ExitTrackerTest, AnExitThatDidNotEndIsOfItsVcpu) {
  play({entry(50, kVcpu1)});
  EXPECT_EQ(tracker_->state(kVcpu1)->begin.ns(), 50u);
  play({exit(100, kSvmIo, kVcpu1)});
  EXPECT_EQ(tracker_->state(kVcpu1)->begin.ns(), 100u);
  EXPECT_EQ(tracker_->state(kVcpu1)->vcpu, 1);
  finish(Timestamp(200));
  ASSERT_THAT(unended_, SizeIs(1));
  EXPECT_EQ(unended_[0].span.vcpu, 1);
}

TEST_F(ExitTrackerTest, EachEventOfTheVmmIsCountedByItsName) {
  model_.user_end = UserEnd::kIoctl;
  play({entry(50), exit(100), to_user(110), marker(115, kReadRtc), marker(118, kReadRtc),
        marker(119, kWriteSerial), run_ioctl(130), entry(150), marker(160, kReadRtc)});
  std::vector<std::pair<std::string, std::uint64_t>> counts;
  const auto& events = tracker_->vmm_events();
  for (NameId name = 0; name < events.size(); ++name)
    if (events[name].count != 0)
      counts.emplace_back(fmt::format("{} {}", names_[name], events[name].count),
                          events[name].in_exits);
  EXPECT_THAT(counts, testing::UnorderedElementsAre(std::pair("memory_region_ops_read 3", 2u),
                                                    std::pair("memory_region_ops_write 1", 1u)));
}

TEST_F(ExitTrackerTest, TheFirstNestedEventTellsWhoseExitItIs) {
  using enum NestedStep;
  play({exit(100), entry(110),                                             // the guest's
        exit(200), nested(201, kEnter), entry(210),                        // VMRUN
        exit(300), nested(301, kExit), entry(310),                         // served here
        exit(400), nested(401, kExit), nested(402, kPassOn), entry(410),   // passed on
        exit(500), nested(501, kEnter), nested(502, kPassOn), entry(510),  // entered and left
        nested(520, kExit), exit(600), entry(610)});                       // not in an exit
  std::vector<NestedLevel> levels;
  for (const ExitSpan& span : spans_) levels.push_back(span.nested);
  EXPECT_THAT(levels, ElementsAre(NestedLevel::kGuest, NestedLevel::kGuestEnters,
                                  NestedLevel::kNested, NestedLevel::kNestedPassedOn,
                                  NestedLevel::kGuestEnters, NestedLevel::kGuest));
}

Event riscv_exit(std::uint64_t at, std::uint32_t cause, std::uint64_t address) {
  return make(at, 0, kVcpu0, KvmExit{cause, kIsaRiscv, 0, kNoVcpu, 0x1000, address});
}

TEST_F(ExitTrackerTest, OnRiscvAFaultThatUserSpaceAnswersIsMmio) {
  constexpr std::uint32_t kMmio = 6;
  play({riscv_exit(100, kRiscvStoreFault, 0x10000004), to_user(120, kMmio), entry(200),
        riscv_exit(300, kRiscvLoadFault, 0x10000005), to_user(320, kMmio), entry(400),
        riscv_exit(500, kRiscvLoadFault, 0x80001000), entry(600),
        riscv_exit(700, kRiscvLoadFault, 0x80002000), to_user(720), entry(800)});
  ASSERT_THAT(spans_, SizeIs(4));
  EXPECT_EQ(spans_[0].detail.kind, DetailKind::kMmio);
  EXPECT_EQ(spans_[0].detail.access, Access::kWrite);
  EXPECT_EQ(spans_[0].detail.value, 0x10000004u);
  EXPECT_EQ(spans_[1].detail.access, Access::kRead);
  EXPECT_EQ(spans_[2].detail.kind, DetailKind::kPageFault);
  EXPECT_EQ(spans_[2].detail.value, 0x80001000u);
  EXPECT_EQ(spans_[3].detail.kind, DetailKind::kPageFault);
}

TEST_F(ExitTrackerTest, UserTimeEndsAtTheChosenWitnessOnly) {
  for (const auto& [end, user] :
       {std::pair{UserEnd::kIoctl, 30u}, {UserEnd::kReload, 40u}, {UserEnd::kEntry, 80u}}) {
    spans_.clear();
    model(end);
    play({exit(100), to_user(120), run_ioctl(150), reload(160), entry(200)});
    ASSERT_THAT(spans_, SizeIs(1));
    EXPECT_THAT(spans_[0].parts, parts(100 - user, user, 0, 0)) << name_of(end);
    EXPECT_EQ(counters().user_without_end, 0u);
  }
}

TEST_F(ExitTrackerTest, SeveralUserIntervalsAreSummed) {
  model(UserEnd::kIoctl);
  play({exit(100), to_user(110), run_ioctl(130), to_user(140), run_ioctl(145), entry(150)});
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_THAT(spans_[0].parts, parts(25, 25, 0, 0));
}

TEST_F(ExitTrackerTest, AUserIntervalWithoutItsEndFallsToTheEntryAndIsCounted) {
  model(UserEnd::kIoctl);
  play({exit(100), to_user(110), entry(150)});
  EXPECT_THAT(spans_[0].parts, parts(10, 40, 0, 0));
  EXPECT_EQ(counters().user_without_end, 1u);
}

TEST_F(ExitTrackerTest, OtherIoctlsDoNotEndUserTime) {
  model(UserEnd::kIoctl);
  play({exit(100), to_user(110), make(115, 0, kVcpu0, IoctlEnter{0xAE41}), run_ioctl(140),
        entry(150)});
  EXPECT_THAT(spans_[0].parts, parts(20, 30, 0, 0));
}

TEST_F(ExitTrackerTest, ARunnableThreadIsPreemptedWhereverItWas) {
  model(UserEnd::kIoctl);
  play({exit(100), switch_out(110, true), switch_in(130), to_user(140), switch_out(150, true),
        switch_in(155), run_ioctl(170), entry(180)});
  EXPECT_THAT(spans_[0].parts, parts(10 + 10 + 10, 10 + 15, 20 + 5, 0));
}

TEST_F(ExitTrackerTest, ASleepingThreadIsBlockedUntilItIsWokenAndThenPreempted) {
  play({exit(100), switch_out(110, false), wake(150), switch_in(170), entry(175)});
  EXPECT_THAT(spans_[0].parts, parts(10 + 5, 0, 20, 40));
}

TEST_F(ExitTrackerTest, WithoutAWakeUpAllSleepIsBlocked) {
  play({exit(100), switch_out(110, false), switch_in(170), entry(175)});
  EXPECT_THAT(spans_[0].parts, parts(15, 0, 0, 60));
}

TEST_F(ExitTrackerTest, WhatTheSchedulerDoesForAThreadDoesNotShowThatItRuns) {
  play({exit(100), switch_out(110, false), reload(112), switch_in(170), entry(175)});
  EXPECT_THAT(spans_[0].parts, parts(15, 0, 0, 60));
}

TEST_F(ExitTrackerTest, ASpanGoesOnAcrossMigration) {
  play({exit(100), switch_out(110, true, kVcpu0, 0), switch_in(130, kVcpu0, 1),
        entry(140, kVcpu0, 1)});
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_THAT(spans_[0].parts, parts(20, 0, 20, 0));
}

TEST_F(ExitTrackerTest, ThreadsAreApart) {
  play({exit(100), exit(105, kSvmNpf, kVcpu1), entry(110, kVcpu1), entry(150)});
  ASSERT_THAT(spans_, SizeIs(2));
  EXPECT_EQ(spans_[0].total(), 5u);
  EXPECT_EQ(spans_[1].total(), 50u);
}

TEST_F(ExitTrackerTest, GuestTimeRunsFromEntryToExit) {
  play({entry(10), exit(100), entry(150), exit(175), entry(176)});
  EXPECT_EQ(tracker_->vcpus()[0].totals.guest_ns, 90u + 25u);
  EXPECT_EQ(counters().entry_without_exit, 1u);
}

TEST_F(ExitTrackerTest, EveryExitAndEntryIsASpanOrCounted) {
  play({entry(10), exit(20), exit(30), entry(40), entry(50), exit(60, kSvmNpf)});
  finish(Timestamp(90));
  EXPECT_EQ(counters().exits, 3u);
  EXPECT_EQ(counters().exit_without_entry, 2u);
  EXPECT_EQ(counters().entry_without_exit, 2u);
  ASSERT_THAT(unended_, SizeIs(2));
  EXPECT_EQ(unended_[0].span.ended, ExitSpan::End::kCut);
  EXPECT_THAT(unended_[0].span.parts, parts(0, 0, 0, 0));  // when it ended is not known
  EXPECT_EQ(unended_[1].span.ended, ExitSpan::End::kOpen);
  EXPECT_THAT(unended_[1].span.parts, parts(30, 0, 0, 0));
  EXPECT_TRUE(unended_[1].is_notable);
}

TEST_F(ExitTrackerTest, AnOpenExitIsToldOfWhereNoneOfItsReasonLastedAsLong) {
  play({entry(10), exit(20), entry(90), exit(100)});
  finish(Timestamp(150));
  ASSERT_THAT(unended_, SizeIs(1));
  EXPECT_FALSE(unended_[0].is_notable);
}

TEST_F(ExitTrackerTest, AnOpenExitThatNoGuestComesBackFromIsToldOf) {
  constexpr std::uint32_t kShutdown = 8;
  play({entry(10), exit(20), entry(90), exit(100),
        make(110, 0, kVcpu0, KvmUserspaceExit{kShutdown, 0})});
  finish(Timestamp(150));
  ASSERT_THAT(unended_, SizeIs(1));
  EXPECT_TRUE(unended_[0].is_notable);
  EXPECT_EQ(unended_[0].state, State::kUser);
}

TEST_F(ExitTrackerTest, AHaltThatLastsAtTheEndIsNotToldOf) {
  play({entry(10), exit(20, kSvmHlt)});
  finish(Timestamp(150));
  ASSERT_THAT(unended_, SizeIs(1));
  EXPECT_EQ(unended_[0].span.ended, ExitSpan::End::kOpen);
  EXPECT_FALSE(unended_[0].is_notable);
}

// An exit of this reason was followed by another one, so entries after it are not recorded.
TEST_F(ExitTrackerTest, AnExitWhoseEntryMayLackIsNotOpenAtTheEnd) {
  play({entry(10), exit(20), exit(40), entry(50), exit(60)});
  finish(Timestamp(100));
  ASSERT_THAT(unended_, SizeIs(2));
  EXPECT_EQ(unended_[1].span.ended, ExitSpan::End::kCut);
}

TEST_F(ExitTrackerTest, TheEndOfAWindowCutsAnExit) {
  play({entry(10), exit(20)});
  tracker_->close(Timestamp(30), true);
  ASSERT_THAT(tracker_->unended(), SizeIs(1));
  EXPECT_EQ(tracker_->unended()[0].span.ended, ExitSpan::End::kCut);
}

TEST_F(ExitTrackerTest, TheMostSpecificDetailWins) {
  play({exit(100, kSvmNpf),
        make(101, 0, kVcpu0, KvmDetail{0xfee, 0, DetailKind::kPageFault, Access::kNone, false}),
        make(102, 0, kVcpu0, KvmDetail{0xfed000f0, 0, DetailKind::kMmio, Access::kRead, true}),
        entry(110)});
  EXPECT_EQ(spans_[0].detail.kind, DetailKind::kMmio);
  EXPECT_EQ(spans_[0].detail.value, 0xfed000f0u);
}

TEST_F(ExitTrackerTest, TheDeviceIsTheRegionOfTheExitsAddress) {
  model(UserEnd::kReload);
  play({exit(100), to_user(110), marker(112, kWriteRtcIndex), marker(115, kReadRtc),
        marker(117, kWriteSerial), reload(120), port(121, 0x71, Access::kRead), entry(130)});
  EXPECT_EQ(device(0), "rtc");
  EXPECT_EQ(handler(0), "memory_region_ops_read");
  EXPECT_EQ(spans_[0].vmm_events, 3u);
}

TEST_F(ExitTrackerTest, WithoutAnAddressNoRegionNamesTheDevice) {
  model(UserEnd::kReload);
  play({exit(100), to_user(110), marker(112, kReadRtc), marker(115, kWriteSerial), reload(120),
        entry(130)});
  EXPECT_EQ(device(0), "");
}

TEST_F(ExitTrackerTest, TheHandlerIsTheDevicesOwnEvent) {
  model(UserEnd::kReload);
  play({exit(100), port(101, 0x3f8), to_user(110),
        marker(111, "kvm_run_exit cpu_index 0, reason 2"), marker(112, kWriteSerial),
        marker(113, "serial_write write addr 0x00 val 0x41"), marker(114, "serial_update"),
        reload(120), entry(130)});
  EXPECT_EQ(handler(0), "serial_write");
}

TEST_F(ExitTrackerTest, ADeviceTracesAReadBeforeItsRegionDoes) {
  model(UserEnd::kReload);
  play({exit(100), to_user(110), marker(112, "cmos_ioport_read 1"), marker(115, kReadRtc),
        marker(116, "something_after"), reload(120), port(121, 0x71, Access::kRead), entry(130)});
  EXPECT_EQ(handler(0), "cmos_ioport_read");
}

TEST_F(ExitTrackerTest, TheAcceleratorsEventIsTheHandlerOnlyWhenItIsAlone) {
  model(UserEnd::kReload);
  play({exit(100), to_user(110), marker(111, "kvm_run_exit cpu_index 3, reason 2"), reload(120),
        entry(130)});
  EXPECT_EQ(handler(0), "kvm_run_exit");
  EXPECT_EQ(device(0), "");
}

TEST_F(ExitTrackerTest, WhatServedAnExitServedNotTheNextOne) {
  model(UserEnd::kReload);
  play({exit(100), to_user(110), marker(111, "kvm_run_exit cpu_index 0, reason 2"),
        marker(112, "cmos_ioport_read 1"), reload(120), entry(130)});
  play({exit(200), to_user(210), reload(220), entry(230)});
  play({exit(300), port(301, 0x71), to_user(310), marker(312, kReadRtc), reload(320), entry(330)});
  EXPECT_EQ(handler(0), "cmos_ioport_read");
  EXPECT_EQ(handler(1), "");
  EXPECT_EQ(handler(2), "memory_region_ops_read");
}

TEST_F(ExitTrackerTest, EventsOutsideUserTimeAndOfOtherThreadsDoNotBelongToTheExit) {
  model(UserEnd::kReload);
  play({exit(100), to_user(110), marker(112, kWriteSerial, kOtherThread), reload(120),
        marker(121, kWriteSerial), entry(130), marker(135, kReadRtc)});
  EXPECT_EQ(spans_[0].vmm_events, 0u);
  EXPECT_EQ(counters().vmm_events, 3u);
  EXPECT_EQ(counters().vmm_events_in_exits, 0u);
}

TEST_F(ExitTrackerTest, MoreAccessesThanAreKeptStillFindTheLast) {
  model(UserEnd::kReload);
  play({exit(100), to_user(110)});
  for (std::uint64_t i = 0; i < 20; ++i) play({marker(111 + i, kWriteSerial)});
  play({marker(140, kReadRtc), reload(150), port(151, 0x71, Access::kRead), entry(160)});
  EXPECT_EQ(device(0), "rtc");
}

TEST_F(ExitTrackerTest, AThreadThatIsSeenAgainIsClosedByTheNextLoss) {
  play({exit(100), lost(0, 100, 200), lost(0, 210, 220), exit(300), lost(0, 320, 400), entry(450)});
  EXPECT_THAT(spans_, IsEmpty());
  EXPECT_EQ(counters().closed_by_loss, 2u);
}

TEST_F(ExitTrackerTest, AfterLostEventsNoSpanBridgesTheHole) {
  play({exit(100), lost(0, 100, 800), entry(900)});
  EXPECT_THAT(spans_, IsEmpty());
  EXPECT_EQ(counters().closed_by_loss, 1u);
  EXPECT_EQ(counters().entry_without_exit, 1u);
}

TEST_F(ExitTrackerTest, AHoleOnAnotherCpuLeavesARunningThreadsSpanAlone) {
  play({exit(100), lost(1, 100, 800), entry(900)});
  EXPECT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(counters().closed_by_loss, 0u);
}

TEST_F(ExitTrackerTest, AHoleAnywhereClosesTheSpanOfAThreadThatIsOffTheCpu) {
  play({exit(100), switch_out(110, false), lost(1, 120, 800), switch_in(850), entry(900)});
  EXPECT_THAT(spans_, IsEmpty());
  EXPECT_EQ(counters().closed_by_loss, 1u);
}

TEST_F(ExitTrackerTest, AThreadThatLeavesItsCpuWhileAnothersHoleLastsIsClosed) {
  play({exit(100), lost(1, 105, 800), switch_out(110, true), switch_in(850), entry(900)});
  EXPECT_THAT(spans_, IsEmpty());
}

TEST_F(ExitTrackerTest, AThreadThatTurnsUpOnTheHolesCpuIsClosed) {
  play({exit(100), lost(1, 105, 800), entry(900, kVcpu0, 1)});
  EXPECT_THAT(spans_, IsEmpty());
  EXPECT_EQ(counters().closed_by_loss, 1u);
}

TEST_F(ExitTrackerTest, AThreadThatGoesToUserSpaceOnTheHolesCpuIsClosed) {
  play({exit(100), lost(1, 105, 800), make(900, 1, kVcpu0, KvmUserspaceExit{2, 0}), entry(950)});
  EXPECT_THAT(spans_, IsEmpty());
}

TEST_F(ExitTrackerTest, AThreadThatComesBackFromUserSpaceOnTheHolesCpuIsClosed) {
  model(UserEnd::kIoctl);
  play({exit(100), to_user(102), lost(1, 105, 800), make(900, 1, kVcpu0, IoctlEnter{0xAE80}),
        entry(950)});
  EXPECT_THAT(spans_, IsEmpty());
}

TEST_F(ExitTrackerTest, SpansThatBeganAfterTheHoleAreWhole) {
  play({exit(100), lost(0, 100, 800), exit(810), entry(850)});
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(spans_[0].total(), 40u);
}

TEST_F(ExitTrackerTest, WithoutKvmExitSpansAreTheTimeInUserSpace) {
  model(UserEnd::kReload, true);
  play({port(95, 0x3f8), to_user(100), marker(110, kWriteSerial), reload(150), to_user(200),
        marker(210, kReadRtc), reload(240), port(241, 0x71, Access::kRead)});
  finish(Timestamp(0));
  ASSERT_THAT(spans_, SizeIs(2));
  EXPECT_THAT(spans_[0].parts, parts(0, 50, 0, 0));
  EXPECT_EQ(spans_[0].detail.value, 0x3f8u);
  EXPECT_EQ(device(0), "serial");
  EXPECT_THAT(spans_[1].parts, parts(0, 40, 0, 0));
  EXPECT_EQ(spans_[1].detail.value, 0x71u);
  EXPECT_EQ(device(1), "rtc");
}

TEST_F(ExitTrackerTest, WithoutEventsOfKvmTheVmmsOwnTellTheTimeInUserSpace) {
  constexpr std::string_view kRunExit = "kvm_run_exit cpu_index 0, reason 2\n";
  model_.from_vmm = true;
  model(UserEnd::kIoctl, true);
  play({marker(100, kRunExit), marker(110, kWriteSerial),
        marker(120, "kvm_vcpu_ioctl cpu_index 0, type 0x4030ae77, arg 0x0\n"),
        marker(150, "kvm_vcpu_ioctl cpu_index 0, type 0xae80, arg 0x0\n"), marker(200, kRunExit)});
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(spans_[0].start.ns(), 100u);
  EXPECT_EQ(spans_[0].end.ns(), 150u);
}

TEST_F(ExitTrackerTest, WithoutKvmExitTheLastExitOfEachVcpuIsReturnedAtTheEnd) {
  model(UserEnd::kReload, true);
  play({to_user(100), to_user(110, 2, kVcpu1), reload(150), reload(160, kVcpu1)});
  EXPECT_THAT(spans_, IsEmpty());
  finish(Timestamp(200));
  EXPECT_THAT(spans_, SizeIs(2));
}

TEST_F(ExitTrackerTest, WithoutKvmExitWhatRanAfterAnExitDidNotPreemptIt) {
  model(UserEnd::kIoctl, true);
  play({to_user(100), run_ioctl(150), switch_out(160, true), switch_in(170), to_user(200)});
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(spans_[0].end.ns(), 150u);
}

TEST_F(ExitTrackerTest, WithoutKvmExitNoEventAfterALossGivesAnExitItsDetail) {
  model(UserEnd::kReload, true);
  play({to_user(100), reload(150), lost(0, 160, 170), port(241, 0x71, Access::kRead)});
  ASSERT_THAT(spans_, SizeIs(1));
  EXPECT_EQ(spans_[0].detail.kind, DetailKind::kNone);
}

TEST_F(ExitTrackerTest, WithoutKvmExitTheBeginOfUserTimeIsTold) {
  model(UserEnd::kReload, true);
  play({to_user(100), reload(150)});
  EXPECT_EQ(tracker_->user_ended(), Timestamp(100));
}

TEST_F(ExitTrackerTest, WithoutAnyEndExitsAreCountedOnly) {
  model(UserEnd::kNone, true);
  play({port(95, 0x3f8), to_user(100), to_user(200), port(241, 0x71, Access::kRead)});
  finish(Timestamp(0));
  ASSERT_THAT(spans_, SizeIs(2));
  EXPECT_EQ(spans_[0].total(), 0u);
  EXPECT_EQ(spans_[0].detail.value, 0x3f8u);
  EXPECT_EQ(spans_[1].detail.value, 0x71u);
}

TEST_F(ExitTrackerTest, PartsSumToTheTotalEvenWhenAClockGoesBack) {
  model(UserEnd::kIoctl);
  play(
      {exit(100), to_user(140), switch_out(130, true), switch_in(160), run_ioctl(150), entry(155)});
  ASSERT_THAT(spans_, SizeIs(1));
  std::uint64_t sum = 0;
  for (const std::uint64_t part : spans_[0].parts) sum += part;
  EXPECT_EQ(sum, spans_[0].total());
  EXPECT_GT(counters().clock_went_back, 0u);
}

TEST_F(ExitTrackerTest, Arm64LearnsItsVcpuFromTheTimerAndFromQemu) {
  play({make(100, 0, kVcpu0, KvmExit{2, kIsaArm64, 0x24, kNoVcpu, 0x40}),
        make(101, 0, kVcpu0, KvmStateLoad{3}), make(110, 0, kVcpu0, KvmEntry{kNoVcpu})});
  EXPECT_EQ(spans_[0].vcpu, 3);
}

TEST_F(ExitTrackerTest, EntriesLackWhereExitsComeInARowAndNoEntryDoes) {
  play({exit(100)});
  EXPECT_FALSE(tracker_->lacks_entries());  // it may be in its first exit yet
  play({exit(200)});
  EXPECT_TRUE(tracker_->lacks_entries());
  play({entry(300)});
  EXPECT_FALSE(tracker_->lacks_entries());
}

}  // namespace
}  // namespace trapline::test
