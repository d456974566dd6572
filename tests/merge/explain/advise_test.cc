#include "merge/explain/advise.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "merge/source/timeline.h"
#include "tests/merge/analyze/events.h"
#include "tests/support/memory_source.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class AdviceTest : public testing::Test {
 protected:
  // An access that QEMU serves: 10 in the kernel, `user` in QEMU, 10 in the kernel.
  void access(std::uint64_t number, std::uint64_t user = 80) {
    play(exit(now_), port(now_, number), to_user(now_ + 10), run_ioctl(now_ + 10 + user),
         entry(now_ + 20 + user));
    now_ += 20 + user;
  }
  void fault(std::uint64_t address, std::uint64_t cost, std::uint32_t reason = kSvmNpf) {
    play(exit(now_, reason),
         make(now_, 0, kVcpu0, KvmDetail{address, 0, DetailKind::kPageFault, Access::kNone, false}),
         entry(now_ + cost));
    now_ += cost;
  }
  void preempted(std::uint64_t by_other) {
    play(exit(now_, kSvmInterrupt), switch_out(now_ + 5, true), switch_in(now_ + 5 + by_other),
         entry(now_ + 10 + by_other));
    now_ += 10 + by_other;
  }
  static Event line(std::uint64_t at, bool raises) {
    return make(at, 0, kOtherThread, KvmIrq{IrqStep::kLine, raises, 0, kNoVector, kNoVcpu});
  }
  void guest(std::uint64_t ns) { now_ += ns; }

  Advice advice() {
    Capabilities has;
    has.kvm_exit = has.kvm_userspace_exit = has.any_kvm = has.run_ioctl = has.sched_switch =
        has.wakeups = true;
    play(exit(now_), entry(now_));
    std::vector<std::unique_ptr<Source>> sources;
    auto source = std::make_unique<MemorySource>(std::move(events_), has);
    source->set_cpus(host_cpus_);
    sources.push_back(std::move(source));
    Timeline timeline(std::move(sources));
    Input input;
    input.capabilities = has;
    AdviceSink sink(true);
    Pipeline pipeline(pipeline_options(timeline, input), {&sink});
    Event event;
    while (timeline.next(event) == Read::kEvent) EXPECT_TRUE(pipeline.push(event));
    pipeline.finish();
    return sink.advice(Naming(timeline, pipeline));
  }
  static std::vector<std::string> told(const std::vector<AdviceRow>& rows) {
    std::vector<std::string> told;
    for (const AdviceRow& row : rows)
      told.push_back(std::string(remedy_of(row.id).id) + ' ' + std::to_string(row.gain_low_ns) +
                     ' ' + std::to_string(row.gain_high_ns));
    return told;
  }
  template <typename... Events>
  void play(Events&&... events) {
    (events_.push_back(std::forward<Events>(events)), ...);
  }

  static constexpr std::uint32_t kSvmInterrupt = 0x60;
  std::uint32_t host_cpus_ = 0;
  std::uint64_t now_ = 1000;
  std::vector<Event> events_ = {entry(1000)};
};

TEST_F(AdviceTest, ADeviceThatIsNotNeededGainsItsExitsAndTheTimeBetweenThem) {
  for (int i = 0; i < 10; ++i) {
    access(0x70);
    guest(7);
    access(0x71);
    guest(1000);  // of which it may be polling for as long as four fifths of an access
  }
  const std::uint64_t cost = 20 * 100, between = 10 * 7 + 9 * 80;
  const Advice found = advice();
  EXPECT_THAT(told(found.rows), ElementsAre("rtc " + std::to_string(cost * 9 / 10) + ' ' +
                                            std::to_string(cost + between)));
  EXPECT_EQ(found.rows[0].count, 20u);
  EXPECT_EQ(found.rows[0].cost_ns, cost);
  EXPECT_EQ(found.rows[0].busy_ns, cost + 10 * 1007);
  EXPECT_EQ(found.finding.size(), 3u);
}

TEST_F(AdviceTest, OfBytesAnExitStaysForEachRow) {
  for (int i = 0; i < 5; ++i) {
    for (int byte = 0; byte < 20; ++byte) access(0x3f8);
    access(0xcf8);  // another device
    guest(1000);
  }
  EXPECT_THAT(told(advice().rows), ElementsAre("serial 8550 10000"));
}

TEST_F(AdviceTest, ARangeThatIsWiderThanAFactorOfTwoIsNoFigure) {
  for (int i = 0; i < 10; ++i) {
    access(0x3f8);
    access(0x3f8);
    access(0xcf8);
    guest(100);
  }
  const Advice found = advice();
  EXPECT_THAT(found.rows, IsEmpty());
  EXPECT_THAT(told(found.not_validated), ElementsAre("serial 0 0"));
}

TEST_F(AdviceTest, HugePagesLeaveTheFirstFaultOfEachRange) {
  for (int page = 0; page < 20; ++page) {
    fault(0x1000000 + static_cast<std::uint64_t>(page) * 0x1000, 100);
    guest(50);
  }
  fault(0x1200000, 100);
  guest(50);
  EXPECT_THAT(told(advice().rows), ElementsAre("pages 1710 3150"));
}

TEST_F(AdviceTest, FaultsThatAreEachTheFirstOfTheirRangeAreNoneForLargerPages) {
  for (std::uint64_t range = 0; range < 20; ++range) {
    fault(0x1000000 + range * 0x200000, 100);
    guest(50);
  }
  const Advice found = advice();
  EXPECT_THAT(found.rows, IsEmpty());
  EXPECT_THAT(found.not_validated, IsEmpty());
}

TEST_F(AdviceTest, PagesOfAFileAreAdvisedOnOnlyWhereEventsProveThem) {
  for (const bool is_proven : {true, false}) {
    for (std::uint64_t page = 0; page < 20; ++page) {
      const std::uint64_t address = (is_proven ? 0x1000000 : 0x2000000) + page * 0x200000;
      play(exit(now_, kSvmNpf),
           make(now_, 0, kVcpu0,
                KvmDetail{address, 4, DetailKind::kPageFault, Access::kNone, false}));
      if (is_proven) play(make(now_ + 10, 0, kVcpu0, HostEvent{HostStep::kFilePage, 0, 0, 0, 0}));
      play(entry(now_ + 100));
      now_ += 150;
    }
  }
  const Advice found = advice();
  EXPECT_THAT(found.rows, IsEmpty());
  EXPECT_THAT(told(found.not_validated),
              testing::UnorderedElementsAre("pages 0 0", "file-pages 0 0"));
  for (const AdviceRow& row : found.not_validated) EXPECT_EQ(row.count, 20u);
}

TEST(RemediesTest, OnlyKsmItselfIsBlamedForPagesThatItTook) {
  PageFault fault;
  fault.why.cause = FaultCause::kRemoved;
  EXPECT_EQ(remedy_of_fault(fault, "ksmd"), RemedyId::kMerged);
  EXPECT_EQ(remedy_of_fault(fault, "khugepaged"), RemedyId::kNone);
  fault.why.how = FaultHow::kReclaim;  // which ksmd did, for want of memory
  EXPECT_EQ(remedy_of_fault(fault, "ksmd"), RemedyId::kNone);
}

// Its protection may be what the thread takes away.
TEST(RemediesTest, APageThatWasThereIsNotLoadedBefore) {
  PageFault fault;
  fault.why.cause = FaultCause::kUserSpace;
  EXPECT_EQ(remedy_of_fault(fault, {}), RemedyId::kNone);
  fault.first = false;
  EXPECT_EQ(remedy_of_fault(fault, {}), RemedyId::kNone);
  fault.first = true;
  EXPECT_EQ(remedy_of_fault(fault, {}), RemedyId::kServed);
}

TEST_F(AdviceTest, TheDebugPortIsThatOfTheExits) {
  play(exit(now_, kSvmInterrupt), switch_out(now_ + 1, true),
       make(now_ + 2, 0, kOtherThread, SchedSwitch{kOtherThread, kVcpu0, true, "CPU 0/KVM"}),
       entry(now_ + 3));
  now_ += 3;
  for (int i = 0; i < 40; ++i) access(0xe9);
  guest(100);
  const Advice found = advice();
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.rows[0].change,
            "QEMU: leave out -device isa-debugcon, or the output of the guest to port 0xe9");
}

TEST_F(AdviceTest, WhereNoDeviceAnswersNoneIsLeftOut) {
  for (int i = 0; i < 40; ++i) {
    play(exit(now_), port(now_, 0xe9), to_user(now_ + 10),
         marker(now_ + 20,
                "memory_region_ops_write cpu 0 mr 0x55 addr 0xe9 value 0x1 size 1 name 'io'\n"),
         run_ioctl(now_ + 90), entry(now_ + 100));
    now_ += 100;
  }
  const Advice found = advice();
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.rows[0].change, "guest: no output to port 0xe9, where no device answers");
}

TEST_F(AdviceTest, WhatWasNotRecordedIsNotCalledNothing) {
  for (int i = 0; i < 10; ++i) access(0xcf8);  // of a device that no event names
  guest(1000);
  const Advice found = advice();
  EXPECT_EQ(found.record.size(), 1u);
  EXPECT_THAT(found.finding[1], testing::HasSubstr("can be told from these events"));
}

TEST(RemediesTest, AnotherVmmIsOfferedNoOptionOfQemu) {
  const std::string change(remedy_of(RemedyId::kHpet).change);
  EXPECT_EQ(change_for_vmm(change, "QEMU"), change);
  EXPECT_EQ(change_for_vmm(change, "the VMM"), "guest: clocksource=kvm-clock (or tsc)");
  EXPECT_EQ(change_for_vmm(std::string(remedy_of(RemedyId::kIrqchip).change), "the VMM"),
            "known for QEMU only, and nothing says that this is QEMU");
}

TEST_F(AdviceTest, WithShadowPagingLargerPagesSpareNoFault) {
  constexpr std::uint32_t kPageFaultException = 0x4e;
  for (std::uint64_t page = 0; page < 20; ++page) {
    fault(0x1000000 + page * 0x1000, 100, kPageFaultException);
    guest(50);
  }
  const Advice found = advice();
  EXPECT_THAT(found.rows, IsEmpty());
  EXPECT_THAT(found.record, IsEmpty());
}

TEST_F(AdviceTest, ACpuForTheVcpuGainsItsWaitsForOthers) {
  for (int i = 0; i < 10; ++i) {
    guest(1000);
    preempted(500);
  }
  EXPECT_THAT(told(advice().rows), ElementsAre("cpus 4500 5100"));
}

TEST_F(AdviceTest, FewerVcpusAreOfferedWhereTheyWaitForEachOther) {
  host_cpus_ = 1;
  const auto give_way = [](std::uint64_t at, ThreadId from, ThreadId to) {
    return make(at, 0, from, SchedSwitch{from, to, true, "vcpu"});
  };
  for (int i = 0; i < 10; ++i) {
    guest(1000);
    play(exit(now_, kSvmInterrupt), give_way(now_ + 5, kVcpu0, kVcpu1), entry(now_ + 10, kVcpu1),
         exit(now_ + 490, kSvmInterrupt, kVcpu1), give_way(now_ + 500, kVcpu1, kVcpu0),
         entry(now_ + 510));
    now_ += 510;
  }
  const Advice found = advice();
  ASSERT_THAT(found.rows, testing::Not(IsEmpty()));
  EXPECT_EQ(found.rows[0].change, "2 vCPUs share 1 CPU: fewer vCPUs, or more CPUs");
}

TEST_F(AdviceTest, NotWhereOthersTakeTheCpuFromThem) {
  host_cpus_ = 1;
  for (int i = 0; i < 10; ++i) {
    guest(1000);
    preempted(500);
  }
  guest(100);
  play(exit(now_, kSvmIo, kVcpu1), entry(now_ + 10, kVcpu1));
  now_ += 10;
  const Advice found = advice();
  ASSERT_THAT(told(found.rows), ElementsAre("cpus 4500 5100"));
  EXPECT_EQ(found.rows[0].change,
            "more CPUs, or less beside the VM (1 CPU for 1 vCPU and the other threads)");
}

TEST_F(AdviceTest, NothingBelowAHundredthOfTheBusyTimeIsOffered) {
  for (int i = 0; i < 3; ++i) access(0x71);
  guest(40'000);
  const Advice found = advice();
  EXPECT_THAT(found.rows, IsEmpty());
  EXPECT_THAT(found.not_validated, IsEmpty());
  EXPECT_EQ(found.finding.size(), 2u);
}

// Its cost is more than a hundredth, the least that is gained less.
TEST_F(AdviceTest, AGainThatMayBeBelowAHundredthIsToldWithoutAFigure) {
  for (int i = 0; i < 3; ++i) access(0x71);
  guest(28'000);
  const Advice found = advice();
  EXPECT_THAT(found.rows, IsEmpty());
  EXPECT_THAT(told(found.not_validated), ElementsAre("rtc 0 0"));
}

TEST_F(AdviceTest, AParallelPortBetweenVgasRegistersIsNoVga) {
  for (int i = 0; i < 10; ++i) access(0x3bc);
  EXPECT_THAT(advice().rows, IsEmpty());
}

TEST_F(AdviceTest, WhatAnotherThreadWouldTakeOverIsToldWithoutAFigure) {
  for (int i = 0; i < 10; ++i) {
    play(exit(now_), port(now_, 0xc000), to_user(now_ + 10),
         marker(now_ + 20,
                "memory_region_ops_write cpu 0 mr 0x55 addr 0xc000 value 0x1 size 2 name "
                "'virtio-pci-notify-virtio-blk'\n"),
         run_ioctl(now_ + 90), entry(now_ + 100));
    now_ += 100;
    guest(100);
  }
  access(0x71);
  const Advice found = advice();
  EXPECT_THAT(told(found.rows), ElementsAre("rtc 90 180"));
  EXPECT_THAT(told(found.not_validated), ElementsAre("notify 0 0"));
  EXPECT_THAT(found.finding[1], testing::HasSubstr("More may be gained of what costs"));
}

// KVM polls only while nothing else wants the CPU.
TEST_F(AdviceTest, PollingSavesTheWaitForAnIdleCpuAndAtMostTheWholeWakeUp) {
  for (const bool idle : {true, false}) {
    const ThreadId other = idle ? ThreadId{} : kOtherThread;
    events_.clear();
    for (int i = 0; i < 10; ++i) {
      guest(50'000);
      // It sleeps for 8 us, waits for the CPU for 3 us, and is back in the guest 3 us later.
      play(exit(now_, kSvmHlt),
           make(now_ + 1'000, 0, kVcpu0, SchedSwitch{kVcpu0, other, false, "other"}),
           wake(now_ + 9'000), make(now_ + 12'000, 0, other, SchedSwitch{other, kVcpu0, true, ""}),
           make(now_ + 14'000, 0, kVcpu0, KvmVcpuWakeup{13'000, true, true}), entry(now_ + 15'000));
      now_ += 15'000;
    }
    const Advice found = advice();
    ASSERT_THAT(told(found.rows), ElementsAre(idle ? "polling 24300 45000" : "cpus 27000 30000"));
    if (idle)
      EXPECT_EQ(found.rows[0].change, "echo 50000 > /sys/module/kvm/parameters/halt_poll_ns");
  }
}

// The main loop, thread kOtherThread, runs for 100 ten times and sets the line each time.
TEST_F(AdviceTest, OfATimersLineThatTheMainLoopRaisesOnlyTheMostIsTold) {
  for (const bool raises : {false, true}) {
    events_ = {make(now_, 0, kOtherThread, NewThread{kVcpu0, true}), entry(now_)};
    for (int i = 0; i < 10; ++i) {
      guest(100);
      play(exit(now_, kSvmHlt), switch_out(now_ + 10, false), line(now_ + 20, raises),
           line(now_ + 30, false), switch_in(now_ + 110), entry(now_ + 120));
      now_ += 120;
    }
    const std::vector<AdviceRow> found = advice().of_host;
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(remedy_of(found[0].id).id, raises ? "timer-line" : "ticks");
    EXPECT_EQ(found[0].host_low_ns, raises ? 0u : 900u);
    EXPECT_EQ(found[0].host_high_ns, 1050u);
    EXPECT_EQ(host_text(found[0]).starts_with("at most "), raises);
  }
}

TEST_F(AdviceTest, APollBeforeASleepIsSavedAndOneThatEndedTheHaltAtMost) {
  events_ = {make(now_, 0, kOtherThread, NewThread{kVcpu0, true}), entry(now_)};
  for (int i = 0; i < 10; ++i) {
    guest(1000);
    // It polls for 100, and then sleeps; after the next halt it polls for 50 with success.
    play(exit(now_, kSvmHlt), switch_out(now_ + 100, false), wake(now_ + 900),
         switch_in(now_ + 910), make(now_ + 920, 0, kVcpu0, KvmHaltPoll{100, 100}),
         make(now_ + 920, 0, kVcpu0, KvmVcpuWakeup{920, true, true}), entry(now_ + 930),
         exit(now_ + 1000, kSvmHlt), make(now_ + 1050, 0, kVcpu0, KvmHaltPoll{100, 100}),
         make(now_ + 1050, 0, kVcpu0, KvmVcpuWakeup{50, false, true}), entry(now_ + 1060));
    now_ += 1060;
  }
  const std::vector<AdviceRow> found = advice().of_host;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(remedy_of(found[0].id).id, "halt-polls");
  EXPECT_EQ(found[0].host_low_ns, 900u);
  EXPECT_EQ(found[0].host_high_ns, 1500u);
}

}  // namespace
}  // namespace trapline::test
