#include "merge/analyze/page_faults.h"

#include <gmock/gmock.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;

constexpr ThreadId kFaultsVm{50}, kFaultWorker{9}, kKhugepaged{31};
constexpr std::uint64_t kPageAt = 0x1000000, kOtherPage = 0x2000000;
constexpr std::uint64_t kReadFault = 4, kWriteFault = 6, kWritePresent = 7;  // error codes of SVM
constexpr std::uint64_t kMovable = 8, kZeroed = 0x108;

// Each fault is told as "CAUSE", ", by THREAD" and ", again".
class PageFaultsTest : public testing::Test {
 protected:
  PageFaultsTest() : PageFaultsTest({kVcpu0, kVcpu1}) {}
  explicit PageFaultsTest(std::initializer_list<ThreadId> of_vm)
      : sink_(told_, how_), pipeline_(options(of_vm), {&sink_}) {}

  static PipelineOptions options(std::initializer_list<ThreadId> of_vm) {
    PipelineOptions options;
    for (const ThreadId vcpu : of_vm) options.processes.set(vcpu, kFaultsVm);
    options.swaps = {7};
    return options;
  }
  void play(std::initializer_list<Event> events) {
    for (const Event& event : events) ASSERT_TRUE(pipeline_.push(event));
  }
  static Event step(std::uint64_t at, HostStep step, std::uint64_t address = 0,
                    std::int32_t number = 0, ThreadId thread = kVcpu0, std::uint64_t call = 0) {
    return make(at, 0, thread, HostEvent{step, number, 0, address, call});
  }
  static Event maps(std::uint64_t at, std::uint64_t address, std::int32_t level = 1) {
    return step(at, HostStep::kMapping, address, level, kVcpu0, kIsThere | kIsWritable);
  }
  static Event unmaps(std::uint64_t at, std::uint64_t address, ThreadId by,
                      std::int32_t level = 1) {
    return step(at, HostStep::kMapping, address, level, by, kWasThere);
  }
  static Event bio(std::uint64_t at, std::uint32_t device, ThreadId by = kVcpu0) {
    return make(at, 0, by, BlockIo{BlockStep::kQueued, true, false, device, 8, 0});
  }
  // What is in the fault has times from 10 on.
  void fault(std::uint64_t code, std::initializer_list<Event> inside,
             std::uint64_t address = kPageAt, ThreadId vcpu = kVcpu0) {
    const std::uint64_t begin = next_, end = begin + 1000;
    next_ += 2000;
    play({make(begin, 0, vcpu, KvmExit{kSvmNpf, kSvm, 0, 0, 0x1000}),
          make(begin + 1, 0, vcpu,
               KvmDetail{address, code, DetailKind::kPageFault, Access::kNone, false})});
    for (Event event : inside) {
      event.at = Timestamp(begin + event.at.ns());
      if (event.thread == kVcpu0) event.thread = vcpu;
      play({event});
    }
    play({make(end, 0, vcpu, KvmEntry{0})});
  }
  void between(const Event& event) {
    Event later = event;
    later.at = Timestamp(next_ - 500);
    play({later});
  }

  struct Sink : SpanSink {
    Sink(std::vector<std::string>& texts, FaultHow& of_last) : told(texts), how(of_last) {}
    [[nodiscard]] SpanClass selects() const override {
      return SpanClass::kExits | SpanClass::kFaults;
    }
    void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
      if (!is_page_fault(exit)) return;
      constexpr std::string_view kNames[] = {"not known", "first", "was there", "copy",    "file",
                                             "swap",      "disk",  "served",    "removed", "logged",
                                             "again",     "aged",  "no execute"};
      const PageFault& fault = pipeline.faults()->last();
      std::string text(kNames[static_cast<std::size_t>(fault.why.cause)]);
      if (fault.why.by != ThreadId{})
        text += ", by " + std::to_string(static_cast<std::int32_t>(fault.why.by));
      if (fault.first == false) text += ", again";
      if (!fault.first && fault.address) text += ", first or again";
      told.push_back(text);
      how = fault.why.how;
    }
    std::vector<std::string>& told;
    FaultHow& how;
  };
  std::vector<std::string> told_;
  FaultHow how_ = FaultHow::kNotKnown;  // of the last one
  Sink sink_;
  Pipeline pipeline_;
  std::uint64_t next_ = 1000;
};

TEST_F(PageFaultsTest, ANewPageIsAFirstTouch) {
  fault(kWriteFault, {step(10, HostStep::kPageAlloc, kZeroed), maps(20, kPageAt)});
  EXPECT_THAT(told_, ElementsAre("first"));
}

TEST_F(PageFaultsTest, APageThatIsNotZeroedMayBeACopyOrSwappedInUnlessItIsLarge) {
  const Event large = step(10, HostStep::kPageAlloc, kMovable, 9);
  fault(kWriteFault, {large, maps(20, kPageAt, 2)});
  between(step(0, HostStep::kFilePage, 0, 0, kFaultWorker));
  fault(kWriteFault, {large, maps(20, kOtherPage, 2)}, kOtherPage);
  fault(kWriteFault, {step(10, HostStep::kPageAlloc, kMovable), maps(20, 0x3000)}, 0x3000);
  EXPECT_THAT(told_, ElementsAre("not known", "first", "not known"));
}

TEST_F(PageFaultsTest, ASmallPartOfALargePageHasHadItsFirstFault) {
  const Event large = step(10, HostStep::kPageAlloc, kZeroed, 9);
  fault(kWriteFault, {large, maps(20, kPageAt, 2)}, kPageAt + 0x5000);
  fault(kWriteFault, {maps(20, kPageAt + 0x1000)}, kPageAt + 0x1000);
  // This one is on a page that had a fault before, so the rest of its large page is no first one's.
  fault(kWriteFault, {step(10, HostStep::kPageAlloc, kZeroed), maps(20, kOtherPage)}, kOtherPage);
  between(unmaps(0, kOtherPage, kKhugepaged));
  fault(kWriteFault, {large, maps(20, kOtherPage, 2)}, kOtherPage);
  fault(kReadFault, {maps(20, kOtherPage + 0x1000)}, kOtherPage + 0x1000);
  EXPECT_THAT(told_, ElementsAre("first", "not known, again", "first", "removed, by 31, again",
                                 "was there"));
}

class PageFaultsOfUnknownVmsTest : public PageFaultsTest {
 protected:
  PageFaultsOfUnknownVmsTest() : PageFaultsTest(std::initializer_list<ThreadId>{}) {}
};

TEST_F(PageFaultsOfUnknownVmsTest, OfASecondVcpuNothingTellsWhetherAFaultIsTheFirst) {
  const Event page = step(10, HostStep::kPageAlloc, kZeroed);
  fault(kWriteFault, {page, maps(20, kPageAt)});
  fault(kWriteFault, {page, maps(20, kPageAt)}, kPageAt, kVcpu1);
  fault(kWriteFault, {page, maps(20, kOtherPage)}, kOtherPage);
  fault(kReadFault, {maps(20, kPageAt)}, kPageAt, kVcpu1);
  EXPECT_THAT(told_, ElementsAre("first", "not known, first or again", "not known, first or again",
                                 "not known, again"));
}

TEST_F(PageFaultsTest, APageOfTheKernelProvesNothing) {
  fault(kWriteFault, {step(10, HostStep::kPageAlloc, 0x100)});
  EXPECT_THAT(told_, ElementsAre("not known"));
}

TEST_F(PageFaultsTest, AWriteThatMakesACopyIsTwoFaults) {
  between(step(0, HostStep::kPageAlloc, 0, 0, kFaultWorker));
  fault(kReadFault, {maps(20, kPageAt)});
  fault(kWritePresent, {step(10, HostStep::kPageAlloc, kMovable), step(20, HostStep::kUnmap),
                        unmaps(30, kPageAt, kVcpu0)});
  fault(kWriteFault, {maps(20, kPageAt)});
  EXPECT_THAT(told_, ElementsAre("was there", "copy, again", "copy, again"));
}

TEST_F(PageFaultsTest, TheNextFaultMapsThePageThatAFaultDidNotMap) {
  const Event page = step(10, HostStep::kPageAlloc, kZeroed);
  fault(kWriteFault, {page, maps(20, kOtherPage)}, kOtherPage);
  fault(kWriteFault, {page, unmaps(20, kOtherPage, kVcpu0)});
  fault(kWriteFault, {maps(20, kPageAt)});
  fault(kWriteFault, {bio(5, 7), page}, 0x3000);
  fault(kWriteFault, {maps(20, 0x3000)}, 0x3000);
  fault(kWriteFault, {page}, 0x4000);
  fault(kWriteFault, {maps(20, 0x5000)}, 0x5000);
  fault(kWriteFault, {maps(20, 0x4000)}, 0x4000);
  EXPECT_THAT(told_, ElementsAre("first", "first", "first, again", "swap", "swap, again", "first",
                                 "was there", "not known, again"));
}

TEST_F(PageFaultsTest, ACollapseHasRemovedItsPagesBeforeItsEvent) {
  for (const std::uint64_t at : {kPageAt, kPageAt + 0x1000, kPageAt + 0x200000}) {
    fault(kWriteFault, {step(10, HostStep::kPageAlloc, kZeroed), maps(20, at)}, at);
    if (at != kPageAt + 0x1000) between(unmaps(0, at, kKhugepaged));
  }
  between(step(0, HostStep::kUnmap, 0, 0, kKhugepaged));
  between(unmaps(0, kPageAt + 0x1000, kKhugepaged));
  between(step(0, HostStep::kCollapse, 0, 0, kKhugepaged));
  fault(kWriteFault, {maps(20, kPageAt)});
  EXPECT_EQ(how_, FaultHow::kCollapse);
  fault(kWriteFault, {maps(20, kPageAt + 0x1000)}, kPageAt + 0x1000);
  EXPECT_EQ(how_, FaultHow::kCollapse);
  fault(kWriteFault, {maps(20, kPageAt + 0x200000)}, kPageAt + 0x200000);
  EXPECT_EQ(how_, FaultHow::kNotKnown);
}

TEST_F(PageFaultsTest, WhoTookThePageAwayIsTold) {
  fault(kWriteFault, {step(10, HostStep::kPageAlloc, kZeroed), maps(20, kPageAt)});
  between(unmaps(0, kPageAt, kKhugepaged));
  fault(kWriteFault, {maps(20, kPageAt)});
  between(unmaps(0, kPageAt & ~std::uint64_t{0x1fffff}, kKhugepaged, 2));
  fault(kWriteFault, {maps(20, kPageAt + 0x1000)}, kPageAt + 0x1000);
  EXPECT_THAT(told_, ElementsAre("first", "removed, by 31, again", "removed, by 31"));
}

TEST_F(PageFaultsTest, AThreadOfNoVmProvesNothingWhereThereAreTwo) {
  fault(kWriteFault, {step(10, HostStep::kPageAlloc, kZeroed), maps(20, kPageAt)});
  play({make(next_, 0, ThreadId{200}, KvmExit{kSvmNpf, kSvm, 0, 0, 0x1000}),
        make(next_ + 10, 0, ThreadId{200},
             KvmDetail{kOtherPage, kWriteFault, DetailKind::kPageFault, Access::kNone, false}),
        make(next_ + 100, 0, ThreadId{200}, KvmEntry{0})});
  next_ += 1000;
  between(unmaps(0, kPageAt, kKhugepaged));
  fault(kWriteFault, {maps(20, kPageAt)});
  EXPECT_THAT(told_, ElementsAre("first", "not known, first or again", "not known, again"));
}

TEST_F(PageFaultsTest, WhatAWorkerDidForThePageTheFaultDid) {
  fault(kWriteFault, {step(10, HostStep::kAsyncFault, kPageAt), bio(20, 7, kFaultWorker),
                      step(900, HostStep::kAsyncDone, kPageAt, 0, kFaultWorker)});
  fault(kWriteFault,
        {step(10, HostStep::kAsyncFault, kOtherPage), bio(20, 8, kFaultWorker),
         step(900, HostStep::kAsyncDone, kPageAt, 0, kFaultWorker)},
        kOtherPage);
  EXPECT_THAT(told_, ElementsAre("swap", "not known"));
}

TEST_F(PageFaultsTest, AReadOfADiskIsAFilesOrSwap) {
  fault(kReadFault, {bio(20, 8)});
  fault(kReadFault, {step(10, HostStep::kFilePage), bio(20, 8)}, kOtherPage);
  EXPECT_THAT(told_, ElementsAre("disk", "file"));
}

TEST_F(PageFaultsTest, AWriteToALoggedPageIsWriteProtection) {
  fault(kWritePresent, {step(10, HostStep::kLoggedWrite)});
  EXPECT_THAT(told_, ElementsAre("logged"));
}

TEST_F(PageFaultsTest, TheSameFaultWithoutAChangeCameAgain) {
  between(step(0, HostStep::kPageAlloc, 0, 0, kFaultWorker));
  between(unmaps(0, kOtherPage, kKhugepaged));
  fault(kWriteFault, {});
  fault(kWriteFault, {});
  fault(kWriteFault, {step(10, HostStep::kMappedSo)}, kPageAt + 0x1000);
  EXPECT_THAT(told_, ElementsAre("not known", "again, again", "again"));
}

TEST_F(PageFaultsTest, ChangedSlotsTakeAllPagesAway) {
  fault(kWriteFault, {step(10, HostStep::kPageAlloc, kZeroed), maps(20, kPageAt)});
  between(make(0, 0, kVcpu1, IoctlEnter{MemoryUnmaps::kSetMemory[0]}));
  fault(kWriteFault, {maps(20, kPageAt)});
  EXPECT_THAT(told_, ElementsAre("first", "removed, by 101, again"));
}

TEST_F(PageFaultsTest, AVcpuThatChangesTheSlotsItselfMakesNoCopy) {
  fault(kWriteFault, {step(10, HostStep::kPageAlloc, kZeroed), maps(20, kPageAt)});
  between(make(0, 0, kVcpu0, IoctlEnter{MemoryUnmaps::kSetMemory[0]}));
  between(unmaps(1, kPageAt, kVcpu0));
  between(run_ioctl(2));
  fault(kWriteFault, {maps(20, kPageAt)});
  EXPECT_THAT(told_, ElementsAre("first", "removed, by 100, again"));
  EXPECT_EQ(how_, FaultHow::kSlots);
}

TEST_F(PageFaultsTest, AfterALossNothingThatCameBeforeItProvesAnything) {
  fault(kWritePresent, {step(10, HostStep::kPageAlloc, kMovable), step(20, HostStep::kUnmap)});
  play({make(next_, 1, kFaultWorker, Lost{Timestamp(next_), Timestamp(next_ + 10), 3})});
  next_ += 1000;
  fault(kWriteFault, {maps(20, kPageAt)});
  EXPECT_THAT(told_, ElementsAre("copy", "not known, again"));
}

}  // namespace
}  // namespace trapline::test
