#include "merge/analyze/vhost_tracker.h"

#include <gtest/gtest.h>

#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

constexpr ThreadId kWorker{300};

class VhostTrackerTest : public testing::Test {
 protected:
  VhostTrackerTest() {
    for (const ThreadId thread : {kVcpu0, kVcpu1, ThreadId{90}})
      processes_.set(thread, ThreadId{90});
  }
  void see(const Event& event) {
    const ThreadChanges changes = threads_.on(event);
    tracker_.on(event, changes, processes_, interrupts_);
    (void)worked_for_.on(changes);
    (void)interrupts_.on(event, changes, worked_for_.process(event.thread, processes_));
    for (const Delivered& delivered : interrupts_.delivered())
      EXPECT_TRUE(tracker_.on_delivered(delivered));
  }
  void play(std::initializer_list<Event> events) {
    for (const Event& event : events) see(event);
  }
  static Event runs(std::uint64_t at) {
    return make(at, 1, ThreadId{0}, SchedSwitch{ThreadId{0}, kWorker, true, "vhost-90"});
  }
  static Event leaves(std::uint64_t at, bool runnable = false) {
    return make(at, 1, kWorker, SchedSwitch{kWorker, ThreadId{0}, runnable, "swapper/1"});
  }
  static Event wakes(std::uint64_t at, ThreadId by,
                     SchedWakeup::Context context = SchedWakeup::Context::kThread) {
    return make(at, 0, by, SchedWakeup{kWorker, 1, true, context});
  }
  static Event irq(std::uint64_t at, ThreadId by, IrqStep step, std::int32_t vcpu = kNoVcpu) {
    return make(at, 1, by, KvmIrq{step, true, 0, 0x24, vcpu});
  }
  static Event mmio(std::uint64_t at) {
    return make(
        at, 0, kVcpu0,
        KvmDetail{0xfe003000, KvmDetail::kNoData, DetailKind::kMmio, Access::kWrite, false});
  }
  // The worker is known from its first switch on.
  void meet() { play({runs(1), leaves(2)}); }
  VhostTracker::Worker worker() {
    VhostTracker::Worker found;
    tracker_.for_each([&](ThreadId thread, const VhostTracker::Worker& one) {
      EXPECT_EQ(thread, kWorker);
      found = one;
    });
    return found;
  }

  Processes processes_;
  Threads threads_{&processes_};
  WorkedFor worked_for_;
  IrqTracker interrupts_;
  VhostTracker tracker_;
};

TEST_F(VhostTrackerTest, ANotifyIsFollowedToTheWorkersInterrupt) {
  meet();
  play({exit(100, kSvmNpf), port(102, 0xc010), wakes(105, kVcpu0), entry(110), runs(125),
        irq(140, kWorker, IrqStep::kMsi, 0), irq(141, kWorker, IrqStep::kAccept, 0), leaves(150),
        exit(155), irq(160, kVcpu0, IrqStep::kInject)});
  const VhostTracker::Worker one = worker();
  EXPECT_EQ(one.name, "vhost-90");
  EXPECT_EQ(one.process, ThreadId{90});
  EXPECT_EQ(one.turns, 1u);
  EXPECT_EQ(one.notified, 1u);
  EXPECT_EQ(one.to_run.total(), 20u);
  EXPECT_EQ(one.ran.total(), 25u);
  EXPECT_EQ(one.interrupts, 1u);
  EXPECT_EQ(one.notify_to_interrupt.total(), 40u);
  EXPECT_EQ(one.to_injection.total(), 20u);
}

TEST_F(VhostTrackerTest, AFastMmioTellsAfterTheWakeUpThatItWasOne) {
  meet();
  play({exit(100, kSvmNpf), wakes(105, kVcpu0), mmio(106), entry(110), runs(125), leaves(150)});
  EXPECT_EQ(worker().notified, 1u);
}

TEST_F(VhostTrackerTest, AWakeUpByAnotherIsNoNotify) {
  meet();
  play({exit(100, kSvmNpf), port(102, 0xc010), entry(103), wakes(105, kOtherThread), runs(125),
        leaves(150)});
  // In an interrupt that hit a vCPU in its exit.
  play({exit(200, kSvmNpf), port(202, 0xc010), wakes(205, kVcpu0, SchedWakeup::Context::kInterrupt),
        runs(225), leaves(250)});
  // Without a write.
  play({exit(300, kSvmNpf), wakes(305, kVcpu0), entry(310), runs(325), leaves(350)});
  EXPECT_EQ(worker().turns, 3u);
  EXPECT_EQ(worker().notified, 0u);
}

TEST_F(VhostTrackerTest, AfterAnExitToUserSpaceQemuMayHaveWokenIt) {
  meet();
  play({exit(100), port(102, 0xc010), to_user(103), wakes(105, kVcpu0), runs(125), leaves(150)});
  EXPECT_EQ(worker().notified, 0u);
}

TEST_F(VhostTrackerTest, PreemptedTimeIsNotRunTime) {
  meet();
  play({wakes(100, kOtherThread), runs(110), leaves(130, true), runs(170), leaves(175)});
  EXPECT_EQ(worker().ran.total(), 25u);
  EXPECT_EQ(worker().preempted_ns, 40u);
  EXPECT_EQ(worker().to_run.total(), 10u);
}

TEST_F(VhostTrackerTest, ATurnIsToldWithItsPiecesWhenItEnds) {
  meet();
  play({wakes(100, kOtherThread), runs(110), irq(115, kWorker, IrqStep::kMsi, 0),
        leaves(130, true)});
  EXPECT_EQ(tracker_.ended(), nullptr);
  play({runs(170), leaves(175)});
  const VhostTurn* turn = tracker_.ended();
  ASSERT_NE(turn, nullptr);
  EXPECT_EQ(turn->name, "vhost-90");
  EXPECT_EQ(turn->worker, kWorker);
  EXPECT_EQ(turn->process, ThreadId{90});
  EXPECT_EQ(turn->raised, Timestamp(115));
  EXPECT_FALSE(turn->notify);
  Timestamp at(100);
  std::uint64_t ran = 0;
  for (const VhostTurn::Piece& piece : turn->pieces) {
    EXPECT_EQ(piece.begin, at) << "pieces follow each other";
    if (piece.part == TurnPart::kRuns) ran += elapsed(piece.begin, piece.end);
    at = piece.end;
  }
  EXPECT_EQ(turn->pieces.size(), 4u);
  EXPECT_EQ(at, Timestamp(175));
  EXPECT_EQ(turn->end, at);
  EXPECT_EQ(ran, turn->ran_ns);
  EXPECT_EQ(ran, 25u);
  see(wakes(200, kOtherThread));
  EXPECT_EQ(tracker_.ended(), nullptr);
}

TEST_F(VhostTrackerTest, ATurnOfMorePiecesThanAreKeptHasNone) {
  meet();
  see(wakes(100, kOtherThread));
  std::uint64_t at = 110;
  for (std::size_t i = 0; i < VhostTracker::kMostPieces; ++i, at += 2)
    play({runs(at), leaves(at + 1, true)});
  play({runs(at), leaves(at + 1)});
  ASSERT_NE(tracker_.ended(), nullptr);
  EXPECT_TRUE(tracker_.ended()->pieces.empty());
  EXPECT_EQ(tracker_.ended()->ran_ns, VhostTracker::kMostPieces + 1);
}

TEST_F(VhostTrackerTest, APostedInterruptIsInjectedWhereItIsRaised) {
  meet();
  play({wakes(100, kOtherThread), runs(110), irq(120, kWorker, IrqStep::kMsi, 0),
        irq(121, kWorker, IrqStep::kAccept, 0), irq(123, kWorker, IrqStep::kInject, 0),
        leaves(130)});
  EXPECT_EQ(worker().to_injection.count(), 1u);
  EXPECT_EQ(worker().to_injection.total(), 3u);
}

TEST_F(VhostTrackerTest, ATurnThatBeganBeforeTheRecordingOrInALossIsLeftOut) {
  meet();
  play({wakes(100, kOtherThread), lost(0, 105, 108), runs(110), leaves(130)});
  EXPECT_EQ(worker().turns, 0u);
}

}  // namespace
}  // namespace trapline::test
