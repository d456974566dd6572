// Guest calls in trace_marker: the grammar of docs/formats/ftrace-calls.md, and what tells the
// stacks of several guests, vCPUs and tasks apart.
#include "merge/source/marker_calls.h"

#include <gmock/gmock.h>

#include "merge/analyze/guest_stacks.h"
#include "merge/analyze/threads.h"
#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

TEST(MarkerCallTest, ACallAndAReturn) {
  const auto call = parse_marker_call("trapline: E cpu0 d=1 0x100a30 small_b\n");
  ASSERT_TRUE(call);
  EXPECT_TRUE(call->entry);
  EXPECT_EQ(call->vcpu, 0);
  EXPECT_EQ(call->depth, 1u);
  EXPECT_EQ(call->task, 0);
  EXPECT_EQ(call->function, 0x100a30u);
  EXPECT_EQ(call->name, "small_b");
  const auto back = parse_marker_call("trapline: X cpu12 d=0 t=100101 0xffffffff81000000 a b<c>");
  ASSERT_TRUE(back);
  EXPECT_FALSE(back->entry);
  EXPECT_EQ(back->vcpu, 12);
  EXPECT_EQ(back->task, 100101);
  EXPECT_EQ(back->function, 0xffffffff81000000u);
  EXPECT_EQ(back->name, "a b<c>");
  EXPECT_EQ(parse_marker_call("trapline: E cpu0 d=0 0x1 ?")->name, "");
}

TEST(MarkerCallTest, FieldsOfLaterVersionsArePassedOver) {
  const auto call = parse_marker_call("trapline: E cpu0 d=1 core=2 t=7 x=0x5 0x100a30 small_b\n");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->depth, 1u);
  EXPECT_EQ(call->task, 7);
  EXPECT_EQ(call->function, 0x100a30u);
  EXPECT_EQ(call->name, "small_b");
}

TEST(MarkerCallTest, RecordsThatDoNotFollowTheGrammarAreCounted) {
  MarkerCalls calls;
  SourceCounters counters;
  for (const char* text : {"trapline: E cpu0 d=1 core 0x1 f", "trapline: X cpu0 d=1",
                           "trapline: L cpu0 many", "trapline: Everything", "another marker"}) {
    Event event = marker(10, text, kVcpu0);
    calls.on(event, counters);
    EXPECT_TRUE(std::holds_alternative<Marker>(event.payload)) << text;
  }
  EXPECT_EQ(counters.damaged_events, 3u);
}

TEST(MarkerCallTest, OtherTextsAreNone) {
  for (const char* text :
       {"", "trapline: ", "trapline: sync 1 7 0 before", "trapline: E", "trapline: E cpu d=1 0x1 f",
        "trapline: E cpu-1 d=1 0x1 f", "trapline: E cpu0 d=-1 0x1 f", "trapline: E cpu0 d=1 1 f",
        "trapline: E cpu0 d=1 0x10000000000000000 f", "trapline: E cpu0 d=1 t= 0x1 f",
        "trapline: E cpu0 d=1 core 0x1 f", "trapline: E cpu0 d=1 =2 0x1 f",
        "trapline: E cpu0 d=1 t=1x 0x1 f", "trapline: E cpu0 d=1 0x1", "trapline: L cpu0 12",
        "E cpu0 d=1 0x1 f", "trapline: E cpu0 d=99999999999 0x1 f"}) {
    EXPECT_FALSE(parse_marker_call(text)) << text;
  }
}

TEST(MarkerCallTest, LossesAndRuns) {
  EXPECT_EQ(parse_marker_loss("trapline: L cpu3 12\n"), 12u);
  EXPECT_FALSE(parse_marker_loss("trapline: L cpu3 12 more"));
  EXPECT_FALSE(parse_marker_loss("trapline: L cpu3"));
  EXPECT_EQ(parse_marker_run(
                "trapline: calls 1 begin run=ab12 pid=7 arch=x86_64 contexts=vcpu output=both"),
            "ab12");
  EXPECT_EQ(parse_marker_run("trapline: calls 1 end run=ab12 written=100 lost=3\n"), "ab12");
  EXPECT_FALSE(parse_marker_run("trapline: calls 2 begin run=ab12"));
}

// The function that is innermost on a thread after these markers.
class MarkerStacksTest : public ::testing::Test {
 protected:
  void on(std::string_view text, ThreadId thread = kVcpu0) {
    Event event = marker(time_ += 10, text, thread);
    markers_.on(event, counters_);
    stacks_.on(event, threads_.on(event));
    if (std::holds_alternative<GuestCall>(event.payload)) ++calls_;
  }
  [[nodiscard]] std::string stack(ThreadId thread = kVcpu0) const {
    return stacks_.text(stacks_.stack_of(thread));
  }
  std::uint64_t time_ = 0;
  Names names_;
  MarkerCalls markers_;
  SourceCounters counters_;
  unsigned calls_ = 0;
  Processes processes_;
  Threads threads_{&processes_};
  GuestStacks stacks_{names_};
};

TEST_F(MarkerStacksTest, CallsNestAndReturn) {
  on("trapline: E cpu0 d=0 0x1 main");
  on("trapline: E cpu0 d=1 0x2 small_b");
  EXPECT_EQ(stack(), "main;small_b");
  on("trapline: X cpu0 d=1 0x2 small_b");
  EXPECT_EQ(stack(), "main");
  EXPECT_EQ(calls_, 3u);
}

TEST_F(MarkerStacksTest, ALostMarkerUnbalancesNothing) {
  on("trapline: E cpu0 d=0 0x1 main");
  on("trapline: E cpu0 d=1 0x2 a");
  // The return of a and the call of b are lost.
  on("trapline: L cpu0 2");
  on("trapline: E cpu0 d=2 0x4 c");
  on("trapline: X cpu0 d=2 0x4 c");
  on("trapline: X cpu0 d=1 0x3 b");
  EXPECT_EQ(stack(), "main");
  EXPECT_EQ(counters_.lost_events, 2u);
  EXPECT_EQ(counters_.gaps, 1u);
}

TEST_F(MarkerStacksTest, TwoGuestsWithVcpuZeroKeepTheirStacks) {
  on("trapline: E cpu0 d=0 0x1 of_one", kVcpu0);
  on("trapline: E cpu0 d=0 0x1 of_other", kVcpu1);
  EXPECT_EQ(stack(kVcpu0), "of_one");
  EXPECT_EQ(stack(kVcpu1), "of_other");
}

TEST_F(MarkerStacksTest, VcpusThatShareAThreadKeepTheirStacks) {
  on("trapline: E cpu0 d=0 0x1 zero");
  on("trapline: E cpu1 d=0 0x2 one");
  EXPECT_EQ(stack(), "one");
  on("trapline: E cpu0 d=1 0x3 more");
  EXPECT_EQ(stack(), "zero;more");
  on("trapline: X cpu1 d=0 0x2 one");
  on("trapline: X cpu0 d=1 0x3 more");
  EXPECT_EQ(stack(), "zero");
}

TEST_F(MarkerStacksTest, TasksOfAVcpuKeepTheirStacks) {
  on("trapline: E cpu0 d=0 t=100 0x1 kernel");
  on("trapline: E cpu0 d=0 t=101 0x2 user");
  on("trapline: E cpu0 d=1 t=100 0x3 handler");
  EXPECT_EQ(stack(), "kernel;handler");
}

}  // namespace
}  // namespace trapline::test
