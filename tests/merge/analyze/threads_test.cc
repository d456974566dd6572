// What is known of each thread from the scheduler's events alone.
#include "merge/analyze/threads.h"

#include <gmock/gmock.h>

#include <string>
#include <type_traits>
#include <vector>

#include "merge/analyze/halts.h"
#include "merge/analyze/kernel_tracker.h"
#include "merge/analyze/pipeline.h"
#include "merge/analyze/stall_tracker.h"
#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;
using Kind = ThreadChange::Kind;

class ThreadsTest : public testing::Test {
 protected:
  // What kVcpu0 did before each of its changes: "asleep since 100".
  std::vector<std::string> before(std::initializer_list<Event> events) {
    constexpr const char* kNames[] = {"unknown", "runs",    "preempted", "woken",
                                      "asleep",  "stopped", "ended"};
    std::vector<std::string> texts;
    for (const Event& event : events) {
      for (const ThreadChange& change : threads_.on(event)) {
        if (change.thread != kVcpu0) continue;
        texts.push_back(std::string(kNames[static_cast<std::size_t>(change.was)]) + " since " +
                        std::to_string(change.since.ns()));
      }
    }
    return texts;
  }
  [[nodiscard]] const ThreadFacts& vcpu() const { return *threads_.find(kVcpu0); }

  Processes processes_;
  Threads threads_{&processes_};
};

TEST_F(ThreadsTest, AThreadRunsIsPreemptedSleepsAndIsWoken) {
  EXPECT_THAT(
      before({switch_in(100), switch_out(130, true), switch_in(150), switch_out(170, false),
              wake(240), wake(245), switch_in(250)}),
      ElementsAre("unknown since 0", "runs since 100", "preempted since 130", "runs since 150",
                  "asleep since 170", "woken since 240", "woken since 240"));
  EXPECT_EQ(vcpu().state, RunState::kRuns);
  EXPECT_EQ(vcpu().slept, Timestamp(170));
  EXPECT_EQ(vcpu().woken, Timestamp(240));
}

TEST_F(ThreadsTest, ASwitchIsTwoChanges) {
  const ThreadChanges changes = threads_.on(switch_out(100, false));
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].kind, Kind::kLeaves);
  EXPECT_EQ(changes[0].thread, kVcpu0);
  EXPECT_EQ(changes[0].other, kOtherThread);
  EXPECT_TRUE(changes[0].sleeps());
  EXPECT_EQ(changes[1].kind, Kind::kRuns);
  EXPECT_EQ(changes[1].thread, kOtherThread);
  EXPECT_EQ(changes[1].other, kVcpu0);
  EXPECT_EQ(changes[1].name, "other");
}

TEST_F(ThreadsTest, ALossOnAnyCpuHidesWhatAThreadDid) {
  EXPECT_THAT(before({switch_out(100, false), lost(3, 120, 150), wake(200), switch_in(210)}),
              ElementsAre("unknown since 0", "unknown since 0", "unknown since 0"));
  EXPECT_EQ(vcpu().woken, Timestamp());
  (void)threads_.on(lost(3, 300, 310));
  EXPECT_EQ(threads_.find(kVcpu0), nullptr);
  EXPECT_TRUE(threads_.on(switch_out(305, true)).front().in_loss);
  EXPECT_FALSE(threads_.on(switch_in(310)).front().in_loss);
}

TEST_F(ThreadsTest, ALossIsAChangeOfAllThreadsUnlessItIsAGuests) {
  const ThreadChanges changes = threads_.on(lost(3, 120, 150));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(are_loss(changes));
  EXPECT_EQ(changes[0].cpu, 3u);
  EXPECT_EQ(changes[0].since, Timestamp(120));
  EXPECT_EQ(changes[0].until, Timestamp(150));
  EXPECT_FALSE(changes[0].leaves() || changes[0].runs() || changes[0].wakes());
  Event of_guest = lost(3, 160, 170);
  of_guest.machine = guest_machine(1);
  EXPECT_TRUE(threads_.on(of_guest).empty());
}

TEST_F(ThreadsTest, AStoppedThreadSleepsAndAnEndedOnesIdIsGivenAgain) {
  Event leaves = switch_out(100, false);
  std::get<SchedSwitch>(leaves.payload).left = SchedSwitch::Left::kStopped;
  Event ends = switch_out(300, false);
  std::get<SchedSwitch>(ends.payload).left = SchedSwitch::Left::kDead;
  EXPECT_THAT(
      before({leaves, wake(150), switch_in(200), ends}),
      ElementsAre("unknown since 0", "stopped since 100", "woken since 150", "runs since 200"));
  EXPECT_THAT(before({switch_in(400)}), ElementsAre("ended since 300"));
}

TEST_F(ThreadsTest, AMoveTellsTheCpuAndOtherEventsChangeNothing) {
  const auto changes =
      threads_.on(make(100, 2, kOtherThread,
                       HostEvent{HostStep::kMigrate, 3, static_cast<std::int32_t>(kVcpu0), 0, 0}));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].kind, Kind::kMoves);
  EXPECT_EQ(changes[0].to_cpu, 3);
  EXPECT_TRUE(
      threads_.on(make(110, 2, kOtherThread, HostEvent{HostStep::kIrqBegin, 3, 0, 0, 0})).empty());
  EXPECT_TRUE(threads_.on(exit(120)).empty());
}

TEST_F(ThreadsTest, AGuestsTasksAndTheIdleThreadHaveNoFacts) {
  Event of_guest = switch_in(100);
  of_guest.machine = guest_machine(1);
  EXPECT_EQ(threads_.on(of_guest).size(), 2u);
  EXPECT_EQ(threads_.find(kVcpu0), nullptr);
  (void)threads_.on(switch_in(200, ThreadId{}));
  EXPECT_EQ(threads_.find(ThreadId{}), nullptr);
}

TEST_F(ThreadsTest, HoweverManyThreadsCameTheLatestIsFollowed) {
  (void)threads_.on(switch_out(50, false));
  for (std::size_t i = 0; i <= Threads::kMostThreads; ++i) {
    Event ends = switch_out(100 + i, false, ThreadId{static_cast<std::int32_t>(1000 + i)});
    std::get<SchedSwitch>(ends.payload).left = SchedSwitch::Left::kDead;
    (void)threads_.on(ends);
  }
  EXPECT_EQ(vcpu().state, RunState::kAsleep);
  EXPECT_EQ(vcpu().slept, Timestamp(50));
  const ThreadId latest{static_cast<std::int32_t>(1000 + Threads::kMostThreads)};
  EXPECT_NE(threads_.find(latest), nullptr);
  EXPECT_EQ(threads_.find(ThreadId{1000}), nullptr);
}

TEST_F(ThreadsTest, WhereAllLiveThoseThatSleptLongestGiveWay) {
  const auto thread = [](std::size_t i) { return ThreadId{static_cast<std::int32_t>(1000 + i)}; };
  for (std::size_t i = 0; i < Threads::kMostThreads; ++i)
    (void)threads_.on(switch_out(100 + i, false, thread(i)));
  (void)threads_.on(switch_out(1'000'000, false, thread(0)));  // it was seen first, and slept last
  (void)threads_.on(switch_out(1'000'001, false));
  EXPECT_EQ(vcpu().slept, Timestamp(1'000'001));
  ASSERT_NE(threads_.find(thread(0)), nullptr);
  EXPECT_EQ(threads_.find(thread(0))->slept, Timestamp(1'000'000));
  EXPECT_NE(threads_.find(thread(Threads::kMostThreads - 1)), nullptr);
  EXPECT_EQ(threads_.find(thread(1)), nullptr);
}

template <typename... Tracker>
constexpr bool kMove = (std::is_move_constructible_v<Tracker> && ...);
static_assert(kMove<Threads, ExitTracker, WaitTracker, StallTracker, HaltTracker, VhostTracker,
                    IrqTracker, RequestPath, KernelTracker, GuestStacks, PlacementCheck>);

// The states of threads stay where they are, so what points to them goes on to do so.
TEST(TrackersTest, ATrackerIsMovedInMidRun) {
  const Processes processes;
  Threads threads(&processes);
  HaltTracker halts;
  const auto play = [](std::initializer_list<Event> events, Threads& first, HaltTracker& second) {
    for (const Event& event : events) second.on(event, first.on(event), nullptr);
  };
  play({exit(100, kSvmHlt), switch_out(110, false), wake(150)}, threads, halts);
  Threads moved_threads(std::move(threads));
  HaltTracker moved(std::move(halts));
  play({switch_in(170), make(171, 0, kVcpu0, KvmVcpuWakeup{70, true, true}), switch_out(200, false),
        lost(0, 210, 220), wake(230), switch_in(240)},
       moved_threads, moved);
  const HaltTracker::Thread& thread = *moved.find(kVcpu0);
  EXPECT_EQ(thread.wake_to_run.count(), 1u);
  EXPECT_EQ(thread.wake_to_run.total(), 20u);
  EXPECT_FALSE(thread.first_slept);
}

}  // namespace
}  // namespace trapline::test
