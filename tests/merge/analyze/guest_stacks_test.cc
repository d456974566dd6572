#include "merge/analyze/guest_stacks.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;

Event call(std::uint64_t at, std::uint32_t depth, std::string_view name) {
  return make(at, 0, kVcpu0, GuestCall{true, 0, depth, 0x1000, name});
}
Event leave(std::uint64_t at, std::uint32_t depth) {
  return make(at, 0, kVcpu0, GuestCall{false, 0, depth, 0x1000, "f"});
}

Event of_task(std::int32_t task, Event event, ThreadId vcpu = kVcpu0) {
  std::get<GuestCall>(event.payload).task = task;
  event.thread = vcpu;
  return event;
}
Event off_cpu(std::uint64_t at, bool out) {
  Event event = make(at, 0, kVcpu0, GuestCall{out, 0, 1, 0, "linux:schedule"});
  std::get<GuestCall>(event.payload).off_cpu = true;
  return event;
}

class GuestStacksTest : public testing::Test {
 protected:
  void play(std::initializer_list<Event> events) {
    for (const Event& event : events) stacks_.on(event, threads_.on(event));
  }
  [[nodiscard]] std::string now() const { return stacks_.text(stacks_.stack_of(kVcpu0)); }
  [[nodiscard]] const GuestFunctionTimes& times(std::string_view name) {
    return stacks_.functions()[names_.id(name)];
  }
  Names names_;
  Processes processes_;
  Threads threads_{&processes_};
  GuestStacks stacks_{names_};
};

TEST_F(GuestStacksTest, CallsAndReturnsMakeTheStack) {
  EXPECT_EQ(now(), "-");
  play({call(10, 0, "main"), call(20, 1, "f"), call(30, 2, "g")});
  EXPECT_EQ(now(), "main;f;g");
  play({leave(40, 2), call(50, 2, "h")});
  EXPECT_EQ(now(), "main;f;h");
  play({leave(60, 2), leave(70, 1)});
  EXPECT_EQ(now(), "main");
  play({leave(80, 0)});
  EXPECT_EQ(now(), "-");
}

TEST_F(GuestStacksTest, FramesThatWereNotSeenAreTheirCallers) {
  play({call(10, 0, "main"), call(20, 5, "f")});
  EXPECT_EQ(now(), "main;f");
  play({leave(30, 5)});
  EXPECT_EQ(now(), "main");
  play({call(40, 3, "g"), leave(50, 2)});
  EXPECT_EQ(now(), "main");
  play({leave(60, 0), call(70, 1023, "h"), leave(80, 4)});
  EXPECT_EQ(now(), "-");
}

TEST_F(GuestStacksTest, OneStackHasOneNumber) {
  play({call(10, 0, "main"), call(20, 1, "f")});
  const StackId first = stacks_.stack_of(kVcpu0);
  play({leave(30, 1), call(40, 1, "f")});
  EXPECT_EQ(stacks_.stack_of(kVcpu0), first);
}

TEST_F(GuestStacksTest, TasksThatTakeTurnsOnAVcpuHaveStacksOfTheirOwn) {
  play({of_task(5, call(10, 0, "main")), of_task(5, call(20, 1, "f")),
        of_task(5, off_cpu(30, true))});
  EXPECT_EQ(now(), "-");  // what runs now is not known
  play({of_task(6, off_cpu(40, false)), of_task(6, call(50, 0, "other"))});
  EXPECT_EQ(now(), "other");
  play({of_task(6, off_cpu(60, true)), of_task(5, off_cpu(70, false))});
  EXPECT_EQ(now(), "main;f");
}

TEST_F(GuestStacksTest, ACallThatBeganAfterTheHostsLastEventEndsNoEarlier) {
  GuestStacks stacks(names_, true);
  stacks.on(call(50, 0, "main"), {});
  stacks.finish(Timestamp(40));
  ASSERT_EQ(stacks.ended().size(), 1u);
  EXPECT_EQ(stacks.ended()[0].end.ns(), 50u);
}

TEST_F(GuestStacksTest, ATaskTakesItsStackAlongToAnotherVcpu) {
  play({of_task(5, call(10, 0, "main")), of_task(5, off_cpu(20, true)),
        of_task(5, off_cpu(30, false), kVcpu1)});
  EXPECT_EQ(now(), "-");
  EXPECT_EQ(stacks_.text(stacks_.stack_of(kVcpu1)), "main");
  // The vCPU it left learns of it late.
  play({of_task(6, call(40, 0, "other")), of_task(5, off_cpu(50, true))});
  EXPECT_EQ(now(), "other");
}

TEST_F(GuestStacksTest, ADepthWithoutItsCallsDoesNotBreakTheStack) {
  play({call(10, 0, "main"), call(20, 5, "deep")});
  EXPECT_EQ(now(), "main;deep");
  play({leave(30, 5)});
  EXPECT_EQ(now(), "main");
  play({call(40, 4'000'000, "bottomless")});
  EXPECT_EQ(now(), "main;bottomless");
}

TEST_F(GuestStacksTest, OwnTimeIsGuestTimeAndThePartsOfItsExits) {
  play({entry(0), call(10, 0, "main"), call(30, 1, "f"), exit(50)});
  ExitSpan span;
  span.thread = kVcpu0;
  span.parts = {5, 20, 0, 0};
  stacks_.on_span(span, stacks_.stack_of(kVcpu0));
  play({entry(75), leave(80, 1), leave(100, 0)});
  EXPECT_EQ(times("main").guest_ns, 20u + 20u);
  EXPECT_EQ(times("f").guest_ns, 20u + 5u);
  EXPECT_THAT(times("f").parts, ElementsAre(5, 20, 0, 0, 0));
  EXPECT_EQ(times("f").total(), 50u);
  EXPECT_EQ(times("f").exits, 1u);
  EXPECT_EQ(times("main").calls, 1u);
}

TEST_F(GuestStacksTest, AnAddressIsWhatItIsCalledNow) {
  for (const std::string_view name : {"a", "", "b", "", "", "a", "a"}) {
    play({call(10, 0, name)});
    EXPECT_EQ(now(), name.empty() ? "0x1000" : name);
  }
  EXPECT_EQ(times("a").calls, 3u);
  EXPECT_EQ(times("0x1000").calls, 3u);
  EXPECT_EQ(times("b").calls, 1u);
}

TEST_F(GuestStacksTest, TimeInAHoleIsNobodys) {
  play({entry(0), call(10, 0, "main"), lost(0, 20, 500), leave(600, 0)});
  EXPECT_EQ(times("main").guest_ns, 0u);
}

TEST_F(GuestStacksTest, TheRipsFunctionIsInnermost) {
  play({call(10, 0, "main"), call(20, 1, "f"), call(30, 2, "g")});
  const StackId stack = stacks_.stack_of(kVcpu0);
  EXPECT_EQ(stacks_.with_innermost(stack, names_.id("g")), stack);
  EXPECT_EQ(stacks_.text(stacks_.with_innermost(stack, names_.id("f"))), "main;f");
  EXPECT_EQ(stacks_.text(stacks_.with_innermost(stack, names_.id("leaf"))), "main;f;g;leaf");
  EXPECT_EQ(stacks_.text(stacks_.with_innermost(kNoStack, names_.id("leaf"))), "leaf");
}

TEST_F(GuestStacksTest, MoreStacksThanAreKeptBecomeTheirCaller) {
  play({call(10, 0, "main")});
  const StackId main = stacks_.stack_of(kVcpu0);
  const StackId first = stacks_.with_innermost(main, names_.id("first"));
  std::set<StackId> kept = {main, first};
  for (int i = 0; i < 300; ++i) {
    const StackId caller = stacks_.with_innermost(main, names_.id("f" + std::to_string(i)));
    kept.insert(caller);
    for (int j = 0; j < 300; ++j)
      kept.insert(stacks_.with_innermost(caller, names_.id("g" + std::to_string(j))));
  }
  EXPECT_EQ(kept.size(), StackTree::kMost - 1);  // kNoStack is one of them
  // Those that are known keep their number; a new one is its caller.
  EXPECT_EQ(stacks_.with_innermost(main, names_.id("first")), first);
  EXPECT_EQ(stacks_.text(first), "main;first");
  EXPECT_EQ(stacks_.with_innermost(first, names_.id("new")), first);
  play({call(20, 1, "new")});
  EXPECT_EQ(now(), "main");
}

}  // namespace
}  // namespace trapline::test
