#include "merge/analyze/thread_lives.h"

#include <gtest/gtest.h>

#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

constexpr ThreadId kId{300}, kSecond = thread_of(300, 1), kThird = thread_of(300, 2), kIdle{0};

Event to(ThreadId next) { return make(10, 0, kIdle, SchedSwitch{kIdle, next, false, "x"}); }
ThreadId next_in(const Event& event) { return std::get<SchedSwitch>(event.payload).next; }
ThreadId born(ThreadLives& lives, bool is_used) {
  const Event& event = lives.born(make(5, 0, kOtherThread, NewThread{kId, true}), is_used);
  return std::get<NewThread>(event.payload).child;
}

// perf and two recordings of one host tell of one new thread twice.
TEST(ThreadLivesTest, ANewThreadWithAUsedIdIsAnotherOne) {
  ThreadLives lives;
  EXPECT_EQ(born(lives, false), kId);
  EXPECT_EQ(born(lives, false), kId);
  EXPECT_FALSE(lives.concerns(exit(9, kSvmIo, kId)));
  EXPECT_EQ(born(lives, true), kSecond);
  EXPECT_TRUE(lives.concerns(exit(9, kSvmIo, kId)));
  EXPECT_TRUE(lives.concerns(to(kId)));
  EXPECT_FALSE(lives.concerns(to(kVcpu0)));
  EXPECT_EQ(born(lives, true), kThird);
  EXPECT_EQ(lives.of(exit(10, kSvmIo, kId)).thread, kThird);
  EXPECT_EQ(lives.of(exit(11)).thread, kVcpu0);
  EXPECT_EQ(earlier_of(kThird), kSecond);
  EXPECT_EQ(earlier_of(kId), ThreadId{});
  EXPECT_EQ(tid_text(kThird), "300 #3");
}

TEST(ThreadLivesTest, AThreadThatWasThereBeforeTheRecordingIsTheFirst) {
  ThreadLives lives;
  EXPECT_EQ(born(lives, true), kSecond);
  EXPECT_EQ(next_in(lives.of(to(kId))), kSecond);
  const Event woken = wake(12, kId);
  EXPECT_EQ(std::get<SchedWakeup>(lives.of(woken).payload).thread, kSecond);
  const Event moved = make(13, 0, kId, HostEvent{HostStep::kMigrate, 1, 300, 0, 0});
  EXPECT_EQ(ThreadId{std::get<HostEvent>(lives.of(moved).payload).thread}, kSecond);
}

TEST(ThreadLivesTest, TheLastNumberOfALifeStays) {
  ThreadLives lives;
  for (std::uint32_t i = 0; i < kLastLife + 5; ++i) (void)born(lives, true);
  EXPECT_EQ(lives.now(kId), thread_of(300, kLastLife));
}

TEST(ThreadLivesTest, AGuestsTasksAreNotTheHosts) {
  ThreadLives lives;
  (void)born(lives, true);
  Event event = to(kId);
  event.machine = guest_machine(1);
  event.thread = kId;
  EXPECT_EQ(next_in(lives.of(event)), kId);
  EXPECT_EQ(lives.of(event).thread, kSecond);
}

}  // namespace
}  // namespace trapline::test
