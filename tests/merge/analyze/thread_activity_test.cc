#include "merge/analyze/thread_activity.h"

#include <gtest/gtest.h>

#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

class ThreadActivityTest : public testing::Test {
 protected:
  void play(std::initializer_list<Event> events) {
    for (const Event& event : events) {
      activity_.on(event, threads_.on(event), kNoName, threads_.switches());
    }
  }
  void mark(std::uint64_t at, NameId event) {
    activity_.on(marker(at, "", kVcpu0), {}, event, threads_.switches());
  }
  // "ran ready slept unknown" of kVcpu0.
  std::string between(std::uint64_t begin, std::uint64_t end) const {
    const Activity did = activity_.between(kVcpu0, Timestamp(begin), Timestamp(end));
    EXPECT_EQ(did.ran_ns + did.ready_ns + did.slept_ns + did.unknown_ns, end - begin);
    return std::to_string(did.ran_ns) + " " + std::to_string(did.ready_ns) + " " +
           std::to_string(did.slept_ns) + " " + std::to_string(did.unknown_ns);
  }
  Processes processes_;
  Threads threads_{&processes_};
  ThreadActivity activity_;
};

TEST_F(ThreadActivityTest, TimeIsRunReadyOrSlept) {
  play({switch_in(100), switch_out(130, true), switch_in(150), switch_out(170, false), wake(240),
        wake(245), switch_in(250)});
  EXPECT_EQ(between(100, 260), "60 30 70 0");
  EXPECT_EQ(between(120, 200), "30 20 30 0");
  EXPECT_EQ(between(260, 270), "10 0 0 0");
}

TEST_F(ThreadActivityTest, BeforeItsFirstSwitchAndInALossNothingIsKnown) {
  EXPECT_EQ(between(0, 100), "0 0 0 100");
  play({switch_out(50, false)});
  EXPECT_EQ(between(0, 100), "0 0 50 50");
  play({lost(0, 80, 90), switch_in(95)});
  EXPECT_EQ(between(0, 100), "5 0 30 65");
}

TEST_F(ThreadActivityTest, ALossOfQemusOwnEventsHidesNoThread) {
  play({switch_in(50)});
  activity_.on(lost(0, 80, 90), {}, kNoName, threads_.switches());
  EXPECT_EQ(between(50, 100), "50 0 0 0");
}

TEST_F(ThreadActivityTest, OfAThreadWhoseSwitchesAreNotAllRecordedNothingIsKnown) {
  processes_.selected = kOtherThread;
  play({switch_in(100), switch_out(130, true), switch_in(150)});
  EXPECT_EQ(between(100, 160), "0 0 0 60");
  processes_.set(kVcpu0, kOtherThread);
  play({switch_out(170, true), switch_in(180)});
  EXPECT_EQ(between(160, 190), "10 10 0 10");
}

TEST_F(ThreadActivityTest, AThreadThatAnotherOneLeftIsNotKnown) {
  play({switch_in(100), make(150, 0, kVcpu1, SchedSwitch{kVcpu1, kOtherThread, true, "other"})});
  EXPECT_EQ(between(100, 200), "50 0 0 50");
}

TEST_F(ThreadActivityTest, EventsOfTheIntervalAreCounted) {
  play({switch_in(100)});
  mark(110, 1);
  mark(120, 2);
  mark(130, 1);
  mark(200, 3);
  const Activity did = activity_.between(kVcpu0, Timestamp(115), Timestamp(150));
  ASSERT_EQ(did.events.size(), 2u);
  EXPECT_EQ(did.events[0].name, 2u);
  EXPECT_EQ(did.events[1].name, 1u);
  EXPECT_EQ(did.events[1].count, 1u);
  EXPECT_EQ(did.ran_ns, 35u);
}

TEST_F(ThreadActivityTest, OnlyTheLatestChangesAreKept) {
  for (std::uint64_t at = 0; at < 4000; at += 20) {
    play({switch_in(at), switch_out(at + 10, true)});
  }
  EXPECT_EQ(between(3900, 3940), "20 20 0 0");
  EXPECT_EQ(between(0, 1000), "0 0 0 1000");
}

}  // namespace
}  // namespace trapline::test
