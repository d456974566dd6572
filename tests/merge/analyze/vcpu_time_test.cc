// Own times of guest functions where the recording has no exits.
#include "merge/analyze/vcpu_time.h"

#include <gmock/gmock.h>

#include <vector>

#include "merge/analyze/pipeline.h"
#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;

constexpr std::string_view kWrite =
    "memory_region_ops_write cpu 0 mr 0x1 addr 0x70 value 0x8f size 1 name 'rtc-index'\n";
constexpr std::string_view kRead =
    "memory_region_ops_read cpu 0 mr 0x2 addr 0x71 value 0x0 size 1 name 'rtc'\n";
constexpr std::string_view kDevice = "rtc_something reg 1\n";

class OwnTimesTest : public testing::Test, protected SpanSink {
 protected:
  OwnTimesTest() : pipeline_(options(), {this}) {}
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kCalls; }
  void call(const FunctionCall& call, const Pipeline&) override { calls_.push_back(call); }

  static PipelineOptions options() {
    PipelineOptions how;
    how.model.from_userspace_exit = true;
    how.model.userspace_exits = false;
    return how;
  }
  static Event enter(std::uint64_t at, std::uint32_t depth, std::string_view name) {
    return make(at, 0, kVcpu0, GuestCall{true, 0, depth, 0x1000, name});
  }
  static Event leave(std::uint64_t at, std::uint32_t depth) {
    return make(at, 0, kVcpu0, GuestCall{false, 0, depth, 0x1000, "f"});
  }
  // What of `kinds` lies in a call from 0 to 100 that is the only one.
  const FunctionCall& only(std::initializer_list<Event> events) {
    (void)pipeline_.push(enter(0, 0, "f"));
    for (const Event& event : events) (void)pipeline_.push(event);
    (void)pipeline_.push(leave(100, 0));
    EXPECT_EQ(calls_.size(), 1u);
    EXPECT_EQ(calls_.at(0).own.total(), 100u);
    return calls_.at(0);
  }
  static std::uint64_t devices(const FunctionCall& call) {
    return call.own.parts[static_cast<std::size_t>(Part::kUser)];
  }

  std::vector<FunctionCall> calls_;
  Pipeline pipeline_;
};

TEST_F(OwnTimesTest, AWriteLastsToTheLastEventOfItsDevice) {
  const FunctionCall& call =
      only({marker(20, kWrite), marker(25, kDevice), marker(40, kDevice), marker(60, kWrite)});
  EXPECT_EQ(devices(call), 20u);                // 20 to 40
  EXPECT_EQ(call.own.devices_at_most_ns, 80u);  // all but the time before the first write
  EXPECT_EQ(call.own.guest_ns, 80u);
  EXPECT_EQ(call.own.vmm_events, 4u);
}

TEST_F(OwnTimesTest, AReadLastsFromTheFirstEventOfItsDevice) {
  const FunctionCall& call = only({marker(20, kDevice), marker(50, kRead)});
  EXPECT_EQ(devices(call), 30u);
  EXPECT_EQ(call.own.devices_at_most_ns, 50u);  // nothing after the read
}

TEST_F(OwnTimesTest, AnEventBetweenAWriteAndAReadProvesNothing) {
  const FunctionCall& call = only({marker(20, kWrite), marker(30, kDevice), marker(50, kRead)});
  EXPECT_EQ(devices(call), 0u);
  EXPECT_EQ(call.own.devices_at_most_ns, 30u);
  EXPECT_TRUE(call.own.several_devices);  // rtc-index and rtc
}

TEST_F(OwnTimesTest, AnAccessWithOneEventHasNoLeastTime) {
  const FunctionCall& call = only({marker(20, kRead), marker(50, kRead)});
  EXPECT_EQ(devices(call), 0u);
  EXPECT_EQ(call.own.devices_at_most_ns, 50u);
  EXPECT_EQ(pipeline_.names()[call.own.device], "rtc");
  EXPECT_FALSE(call.own.several_devices);
}

TEST_F(OwnTimesTest, TimeOffTheCpuIsPreemptedOrBlockedAlsoInsideOfAnAccess) {
  const FunctionCall& call =
      only({marker(10, kWrite), switch_out(20, false), wake(35), switch_in(40), marker(50, kDevice),
            switch_out(60, true), switch_in(75)});
  EXPECT_EQ(call.own.guest_ns, 10u + 10u + 25u);
  // kernel, user: 10 to 50 without the time off the CPU, preempted, blocked
  EXPECT_THAT(call.own.parts, ElementsAre(0, 20, 5 + 15, 15, 0));
}

TEST_F(OwnTimesTest, WhatACalleeTakesIsNotTheCallersOwn) {
  for (const Event& event : {enter(0, 0, "main"), enter(10, 1, "f"), marker(20, kRead),
                             leave(30, 1), enter(50, 1, "f"), leave(55, 1), leave(100, 0)}) {
    (void)pipeline_.push(event);
  }
  ASSERT_EQ(calls_.size(), 3u);
  EXPECT_EQ(calls_[0].own.total(), 20u);
  EXPECT_EQ(calls_[1].own.total(), 5u);
  EXPECT_EQ(calls_[1].own.vmm_events, 0u);
  EXPECT_EQ(calls_[2].own.total(), 75u);
  EXPECT_EQ(calls_[2].own.device, kNoName);
  const auto& functions = pipeline_.stacks().functions();
  EXPECT_EQ(functions[pipeline_.stacks().innermost(calls_[0].stack)].calls, 2u);
  EXPECT_EQ(functions[pipeline_.stacks().innermost(calls_[0].stack)].total(), 25u);
}

TEST_F(OwnTimesTest, ACallThatALossTouchesSaysSoAndItsLostTimeIsNobodys) {
  for (const Event& event : {enter(0, 0, "main"), test::lost(0, 20, 70), marker(80, kWrite),
                             leave(100, 0), enter(110, 0, "main"), leave(120, 0)}) {
    (void)pipeline_.push(event);
  }
  pipeline_.finish();
  ASSERT_EQ(calls_.size(), 2u);
  EXPECT_TRUE(calls_[0].own.cut);
  EXPECT_EQ(calls_[0].own.total(), 20u + 20u);
  EXPECT_FALSE(calls_[1].own.cut);
  EXPECT_EQ(pipeline_.stacks().counters().cut_by_loss, 1u);
}

TEST_F(OwnTimesTest, ACallThatIsOpenAtTheEndIsCountedUpToIt) {
  for (const Event& event : {enter(0, 0, "main"), enter(10, 1, "f"), leave(30, 0)}) {
    (void)pipeline_.push(event);
  }
  (void)pipeline_.push(enter(40, 0, "main"));
  (void)pipeline_.push(switch_out(50, false));
  pipeline_.finish();
  ASSERT_EQ(calls_.size(), 3u);
  EXPECT_FALSE(calls_[0].complete);  // f: its return is missing
  EXPECT_TRUE(calls_[1].complete);
  EXPECT_FALSE(calls_[2].complete);
  EXPECT_EQ(calls_[2].own.total(), 10u);
  EXPECT_EQ(pipeline_.stacks().counters().without_return, 2u);
  EXPECT_EQ(pipeline_.stacks().counters().calls, 3u);
}

TEST_F(OwnTimesTest, TheThreadsOfCallsAreTheVcpus) {
  (void)pipeline_.push(enter(0, 0, "main"));
  (void)pipeline_.push(leave(30, 0));
  // QEMU's main thread writes returns that are left at the end.
  (void)pipeline_.push(make(40, 1, kOtherThread, GuestCall{false, 1, 0, 0x1000, "f"}));
  const auto vcpus = pipeline_.vcpus();
  ASSERT_EQ(vcpus.size(), 1u);
  EXPECT_EQ(vcpus[0].thread, kVcpu0);
  EXPECT_EQ(vcpus[0].totals.vcpu, 0);
  EXPECT_EQ(vcpus[0].totals.guest_ns, 30u);
}

}  // namespace
}  // namespace trapline::test
