#include <gtest/gtest.h>

#include "merge/analyze/halts.h"
#include "merge/analyze/irq_tracker.h"
#include "merge/analyze/vhost_tracker.h"
#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

constexpr ThreadId kProcess{50};

Event irq(std::uint64_t at, IrqStep step, std::uint32_t pin, std::uint32_t vector,
          std::int32_t vcpu, ThreadId thread = kOtherThread, bool level = true) {
  return make(at, 0, thread, KvmIrq{step, level, pin, vector, vcpu});
}

class IrqTrackerTest : public testing::Test {
 protected:
  void play(std::initializer_list<Event> events) {
    for (const Event& event : events) {
      const IrqSpan* span = tracker_.on(event, threads_.on(event), kProcess);
      if (span != nullptr) done_.push_back(*span);
    }
  }
  Threads threads_{nullptr};
  IrqTracker tracker_;
  std::vector<IrqSpan> done_;
};

TEST_F(IrqTrackerTest, FollowsALineFromRaiseToEoi) {
  play({exit(90), irq(100, IrqStep::kLine, 4, kNoVector, kNoVcpu),
        irq(101, IrqStep::kAccept, 0, 0x24, 0),
        irq(110, IrqStep::kInject, 0, 0x24, kNoVcpu, kVcpu0), entry(120), exit(130),
        irq(131, IrqStep::kEoi, 0, 0x24, 0, kVcpu0)});
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].origin, IrqSpan::Origin::kLine);
  EXPECT_EQ(done_[0].pin, 4u);
  EXPECT_EQ(done_[0].raised, Timestamp(100));
  EXPECT_EQ(done_[0].injected, Timestamp(110));
  EXPECT_EQ(done_[0].entered, Timestamp(120));
  EXPECT_EQ(done_[0].ended, Timestamp(131));
}

TEST_F(IrqTrackerTest, WithoutARaiseItBeginsWhereTheVcpuAcceptsIt) {
  play({exit(90), irq(101, IrqStep::kAccept, 0, 0xec, 0, kVcpu0),
        irq(110, IrqStep::kInject, 0, 0xec, kNoVcpu, kVcpu0), entry(120),
        irq(131, IrqStep::kEoi, 0, 0xec, 0, kVcpu0)});
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].origin, IrqSpan::Origin::kLocal);
  EXPECT_EQ(done_[0].raised, Timestamp(101));
}

TEST_F(IrqTrackerTest, ARaiseCountsForTheNextAcceptOfItsThreadOnly) {
  play({exit(90), irq(95, IrqStep::kMsi, 0, 0x30, 0), irq(96, IrqStep::kAccept, 0, 0x30, 0),
        irq(101, IrqStep::kAccept, 0, 0xec, 0),
        irq(110, IrqStep::kInject, 0, 0xec, kNoVcpu, kVcpu0),
        irq(131, IrqStep::kEoi, 0, 0xec, 0, kVcpu0)});
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].origin, IrqSpan::Origin::kLocal);
}

// A line that waits already: the IOAPIC raises nothing more, and the timer's interrupt is the next
// that a vCPU accepts on this thread.
TEST_F(IrqTrackerTest, ALineThatTheIoapicCoalescesIsNotTheNextAcceptedInterrupts) {
  play({exit(90), irq(95, IrqStep::kLine, 4, kNoVector, kNoVcpu, kVcpu0),
        irq(96, IrqStep::kRoute, 4, 0x23, kNoVcpu, kVcpu0),
        irq(101, IrqStep::kAccept, 0, 0xec, 0, kVcpu0),
        irq(110, IrqStep::kInject, 0, 0xec, kNoVcpu, kVcpu0),
        irq(131, IrqStep::kEoi, 0, 0xec, 0, kVcpu0)});
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].origin, IrqSpan::Origin::kLocal);
  EXPECT_EQ(done_[0].raised, Timestamp(101));
}

TEST_F(IrqTrackerTest, ALineRaisedFromUserSpaceEndsWhereTheVcpuRunsAgain) {
  play({exit(90), irq(95, IrqStep::kLine, 4, kNoVector, kNoVcpu, kVcpu0), reload(99),
        irq(101, IrqStep::kAccept, 0, 0xec, 0, kVcpu0),
        irq(110, IrqStep::kInject, 0, 0xec, kNoVcpu, kVcpu0),
        irq(131, IrqStep::kEoi, 0, 0xec, 0, kVcpu0)});
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].origin, IrqSpan::Origin::kLocal);
}

TEST_F(IrqTrackerTest, RaisedAgainWhilePendingItIsCoalesced) {
  play({exit(90), irq(100, IrqStep::kAccept, 0, 0x24, 0), irq(105, IrqStep::kAccept, 0, 0x24, 0),
        irq(110, IrqStep::kInject, 0, 0x24, kNoVcpu, kVcpu0),
        irq(131, IrqStep::kEoi, 0, 0x24, 0, kVcpu0)});
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].raised, Timestamp(100));
  EXPECT_EQ(tracker_.coalesced(), 1u);
}

TEST_F(IrqTrackerTest, APostedInterruptIsInjectedWhereItIsRaised) {
  play({exit(90), irq(100, IrqStep::kMsi, 0, 0x24, 0), irq(101, IrqStep::kAccept, 0, 0x24, 0),
        irq(102, IrqStep::kInject, 0, 0x24, 0), irq(131, IrqStep::kEoi, 0, 0x24, 0, kVcpu0)});
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].injected, Timestamp(102));
  EXPECT_FALSE(done_[0].entered);
}

// A vCPU that slept when the recording began: kvm_inj_virq names none, the kvm_entry after it does.
TEST_F(IrqTrackerTest, TheFirstInjectionOfAThreadIsItsVcpusToo) {
  play({irq(100, IrqStep::kAccept, 0, 0x24, 0),
        irq(110, IrqStep::kInject, 0, 0x24, kNoVcpu, kVcpu0), entry(120), exit(130),
        irq(131, IrqStep::kEoi, 0, 0x24, 0, kVcpu0)});
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].injected, Timestamp(110));
  EXPECT_EQ(done_[0].entered, Timestamp(120));
}

TEST_F(IrqTrackerTest, AnInjectionThatIsToldLateIsNotThatOfALaterRaise) {
  play({irq(110, IrqStep::kInject, 0, 0x24, kNoVcpu, kVcpu0),
        irq(115, IrqStep::kAccept, 0, 0x24, 0), entry(120), exit(130),
        irq(140, IrqStep::kInject, 0, 0x24, kNoVcpu, kVcpu0), entry(150),
        irq(160, IrqStep::kEoi, 0, 0x24, 0, kVcpu0)});
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].injected, Timestamp(140));
}

// The kernel's order: the line goes to the PIC, then to the IOAPIC, which the guest has masked.
TEST_F(IrqTrackerTest, FollowsALineThroughThePic) {
  play({exit(90), irq(100, IrqStep::kLine, 0, kNoVector, kNoVcpu),
        irq(101, IrqStep::kPic, 0, kNoVector, kNoVcpu), irq(102, IrqStep::kRoute, 2, 0, kNoVcpu),
        irq(103, IrqStep::kLine, 0, kNoVector, kNoVcpu, kOtherThread, false),
        irq(104, IrqStep::kPic, 0, kNoVector, kNoVcpu),
        irq(110, IrqStep::kInject, 0, 0x8, kNoVcpu, kVcpu0), entry(120), exit(130),
        irq(131, IrqStep::kPicEnd, 0, kNoVector, kNoVcpu, kVcpu0)});
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].origin, IrqSpan::Origin::kLine);
  EXPECT_EQ(done_[0].pin, 0u);
  EXPECT_EQ(done_[0].vector, 0x8u);
  EXPECT_EQ(done_[0].raised, Timestamp(100));
  EXPECT_EQ(done_[0].injected, Timestamp(110));
  EXPECT_EQ(done_[0].entered, Timestamp(120));
  EXPECT_EQ(done_[0].ended, Timestamp(131));
  EXPECT_EQ(tracker_.finish(), nullptr);
}

TEST_F(IrqTrackerTest, AnInjectionThatIsTriedAgainIsNotASecondOne) {
  play({exit(90), irq(100, IrqStep::kLine, 0, kNoVector, kNoVcpu),
        irq(101, IrqStep::kPic, 0, kNoVector, kNoVcpu),
        irq(110, IrqStep::kInject, 0, 0x8, kNoVcpu, kVcpu0), entry(112), exit(114),
        irq(115, IrqStep::kLine, 0, kNoVector, kNoVcpu),
        irq(116, IrqStep::kPic, 0, kNoVector, kNoVcpu),
        irq(117, IrqStep::kInject, 0, 0x8, kNoVcpu, kVcpu0, false), entry(120),
        irq(131, IrqStep::kPicEnd, 0, kNoVector, kNoVcpu, kVcpu0)});
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].injected, Timestamp(110));
  EXPECT_EQ(tracker_.finish(), nullptr);  // the second raise still waits
}

TEST_F(IrqTrackerTest, APinThatBothChipsHaveIsToldByTheirBases) {
  const auto raise = [&](std::uint64_t at, std::uint32_t gsi) {
    play({irq(at, IrqStep::kLine, gsi, kNoVector, kNoVcpu),
          irq(at + 1, IrqStep::kPic, gsi, kNoVector, kNoVcpu)});
  };
  play({exit(90)});
  raise(100, 12);
  play({irq(110, IrqStep::kInject, 0, 0x74, kNoVcpu, kVcpu0),
        irq(111, IrqStep::kPicEnd, 12, kNoVector, kNoVcpu, kVcpu0)});
  raise(112, 4);
  play({irq(115, IrqStep::kInject, 0, 0x0c, kNoVcpu, kVcpu0),
        irq(116, IrqStep::kPicEnd, 4, kNoVector, kNoVcpu, kVcpu0)});
  raise(120, 12);
  raise(122, 4);
  play({irq(130, IrqStep::kInject, 0, 0x0c, kNoVcpu, kVcpu0),
        irq(131, IrqStep::kPicEnd, 4, kNoVector, kNoVcpu, kVcpu0),
        irq(140, IrqStep::kInject, 0, 0x74, kNoVcpu, kVcpu0),
        irq(141, IrqStep::kPicEnd, 12, kNoVector, kNoVcpu, kVcpu0)});
  ASSERT_EQ(done_.size(), 4u);
  EXPECT_EQ(done_[2].pin, 4u);
  EXPECT_EQ(done_[2].raised, Timestamp(122));
  EXPECT_EQ(done_[3].pin, 12u);
  EXPECT_EQ(done_[3].raised, Timestamp(120));
  EXPECT_EQ(tracker_.ambiguous(), 0u);
}

TEST_F(IrqTrackerTest, WhatMayBeEitherChipsIsCountedAndLeftOpen) {
  play({exit(90), irq(100, IrqStep::kLine, 12, kNoVector, kNoVcpu),
        irq(101, IrqStep::kPic, 12, kNoVector, kNoVcpu),
        irq(102, IrqStep::kLine, 4, kNoVector, kNoVcpu),
        irq(103, IrqStep::kPic, 4, kNoVector, kNoVcpu),
        irq(110, IrqStep::kInject, 0, 0x0c, kNoVcpu, kVcpu0)});
  EXPECT_EQ(tracker_.ambiguous(), 1u);
  EXPECT_EQ(tracker_.finish(), nullptr);
}

TEST_F(IrqTrackerTest, AMaskedPinIsNotTheInjectedInterrupt) {
  play({exit(90), irq(100, IrqStep::kLine, 4, kNoVector, kNoVcpu),
        irq(101, IrqStep::kPic, 4, kNoVector, kNoVcpu, kOtherThread, false),
        irq(102, IrqStep::kAccept, 0, 0x24, 0),
        irq(110, IrqStep::kInject, 0, 0x24, kNoVcpu, kVcpu0), entry(120),
        irq(131, IrqStep::kEoi, 0, 0x24, 0, kVcpu0)});
  ASSERT_EQ(done_.size(), 1u);
  EXPECT_EQ(done_[0].raised, Timestamp(100));  // the IOAPIC's, with the raise of its line
  EXPECT_EQ(tracker_.seen()[static_cast<std::size_t>(IrqStep::kPic)], 1u);
}

TEST_F(IrqTrackerTest, LostEventsEndThePicsInterruptsToo) {
  play({exit(90), irq(100, IrqStep::kLine, 0, kNoVector, kNoVcpu),
        irq(101, IrqStep::kPic, 0, kNoVector, kNoVcpu), lost(0, 102, 105),
        irq(110, IrqStep::kInject, 0, 0x8, kNoVcpu, kVcpu0)});
  EXPECT_EQ(tracker_.finish(), nullptr);
}

TEST(KernelThreadsTest, ThoseThatWorkForAVmAreOfItsProcess) {
  Processes processes;
  processes.set(ThreadId{110}, ThreadId{110});
  processes.set(ThreadId{112}, ThreadId{110});
  processes.set(ThreadId{118}, ThreadId{118});  // a kernel thread is a process of its own
  WorkedFor worked_for;
  const auto process = [&](int thread, const char* name) {
    const ThreadChange runs{
        .kind = ThreadChange::Kind::kRuns, .thread = ThreadId{thread}, .name = name};
    worked_for.on({&runs, 1});
    return worked_for.process(ThreadId{thread}, processes);
  };
  EXPECT_EQ(process(118, "kvm-pit/110"), ThreadId{110});
  EXPECT_EQ(process(119, "vhost-112"), ThreadId{110});  // made by another thread of it
  EXPECT_EQ(process(112, "CPU 0/KVM"), ThreadId{110});
  EXPECT_EQ(process(120, "vhost-999"), ThreadId{});  // nothing tells whose that thread is
  for (const auto* other : {"", "vhost-", "vhost-1x", "kvm-pit/", "kvm-pit/-1", "kvm-pit"}) {
    EXPECT_EQ(process_in_name(other), ThreadId{}) << other;
  }
}

TEST_F(IrqTrackerTest, WhatNeverEndsIsHandedOutAtTheEnd) {
  play({exit(90), irq(100, IrqStep::kAccept, 0, 0x24, 0),
        irq(110, IrqStep::kInject, 0, 0x24, kNoVcpu, kVcpu0), entry(120)});
  EXPECT_TRUE(done_.empty());
  const IrqSpan* span = tracker_.finish();
  ASSERT_NE(span, nullptr);
  EXPECT_FALSE(span->ended);
  EXPECT_EQ(tracker_.finish(), nullptr);
}

TEST_F(IrqTrackerTest, NothingIsFollowedAcrossAHole) {
  play({exit(90), irq(100, IrqStep::kAccept, 0, 0x24, 0), lost(0, 101, 105),
        irq(110, IrqStep::kInject, 0, 0x24, kNoVcpu, kVcpu0),
        irq(131, IrqStep::kEoi, 0, 0x24, 0, kVcpu0)});
  EXPECT_TRUE(done_.empty());
}

TEST(HaltTrackerTest, TellsPollsFromSleepAndTimesTheWayFromWakeUpToRunning) {
  Processes processes;
  Threads threads(&processes);
  HaltTracker tracker;
  for (const Event& event : {exit(90, kSvmHlt), make(95, 0, kVcpu0, KvmVcpuWakeup{5, false, true}),
                             exit(100, kSvmHlt), switch_out(110, false), wake(150), wake(152),
                             switch_in(170), make(171, 0, kVcpu0, KvmVcpuWakeup{70, true, true})}) {
    tracker.on(event, threads.on(event), nullptr);
  }
  ASSERT_EQ(tracker.threads().size(), 1u);
  const HaltTracker::Thread& thread = tracker.threads()[0].state;
  EXPECT_EQ(thread.polls_won.count(), 1u);
  EXPECT_EQ(thread.polls_won.total(), 5u);
  EXPECT_EQ(thread.slept.total(), 70u);
  EXPECT_EQ(thread.wake_to_run.count(), 1u);
  EXPECT_EQ(thread.wake_to_run.total(), 20u);
}

}  // namespace
}  // namespace trapline::test
