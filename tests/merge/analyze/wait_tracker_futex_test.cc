// Waits for futexes and locks: whose call ended them, and who held the lock meanwhile.
#include "tests/merge/analyze/wait_tracker_fixture.h"

namespace trapline::test {
namespace {

using testing::ElementsAre;

// FUTEX_WAKE alone does not tell that its caller held a lock.
TEST_F(WaitTrackerTest, AFutexIsThatOfTheCallThatWokeThoseWhoWaitForIt) {
  for (const std::uint64_t call : {kWait, kWaitBitset}) {
    shares_.clear();
    play({exit(100), futex(190, kVcpu0, 0x1000, call), sched(200, kVcpu0, ThreadId{0}, false),
          futex(255, kOtherThread, 0x1000, kWake), waking(260), sched(300, ThreadId{0}, kVcpu0),
          entry(400)});
    EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 60", "idle 40"));
  }
}

TEST_F(WaitTrackerTest, AnotherFutexWokeNobodyOfThisOne) {
  play({exit(100), futex(190, kVcpu0, 0x1000, kWait), sched(200, kVcpu0, ThreadId{0}, false),
        futex(255, kOtherThread, 0x2000, kWake), waking(260), sched(300, ThreadId{0}, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

TEST_F(WaitTrackerTest, ACallThatIsOverWokeNobodyAfterIt) {
  play({exit(100), futex(190, kVcpu0, 0x1000, kWait), sched(200, kVcpu0, ThreadId{0}, false),
        futex(250, kOtherThread, 0x1000, kWake), context(252, HostStep::kFutexEnd), waking(260),
        sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

// A signal may wake the second one.
TEST_F(WaitTrackerTest, ACallWakesNoMoreThanItMay) {
  play({exit(100), futex(190, kVcpu0, 0x1000, kWait), futex(191, kHolder, 0x1000, kWait),
        on(2, sched(195, kHolder, kIdle, false)), sched(200, kVcpu0, ThreadId{0}, false),
        futex(255, kOtherThread, 0x1000, kWake), wakes(256, kHolder, kOtherThread), waking(260),
        sched(300, ThreadId{0}, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 60", "idle 40"));
}

// "Held" is said from the acquisition on; until the holder before let go, it is charged.
TEST_F(WaitTrackerTest, ALockIsHeldByWhoAcquiredItAndBeforeByTheHolderBefore) {
  play({exit(100), on(2, futex(150, kHolder, 0x1000, kWait)),
        on(2, sched(151, kHolder, kIdle, false)), futex(190, kVcpu0, 0x1000, kWait),
        sched(200, kVcpu0, kIdle, false), futex(239, kOtherThread, 0x1000, kWake),
        wakes(240, kHolder, kOtherThread), on(2, sched(250, kIdle, kHolder)),
        futex(259, kHolder, 0x1000, kWake), waking(260, kHolder), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 40", "blocked futex of 8 10",
                                   "blocked lock of 8 10", "idle 40"));
}

// A timer, or a signal, ended its wait: nobody gave it the lock.
TEST_F(WaitTrackerTest, AWaiterThatNoCallWokeHoldsNoLock) {
  play({exit(100), on(2, futex(110, kHolder, 0x1000, kWait)),
        on(2, sched(120, kHolder, kIdle, false)), wakes(130, kHolder, kOtherThread, true),
        on(2, sched(140, kIdle, kHolder)), futex(190, kVcpu0, 0x1000, kWait),
        sched(200, kVcpu0, kIdle, false), futex(259, kHolder, 0x1000, kWake), waking(260, kHolder),
        sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked futex of 8 60", "idle 40"));
}

TEST_F(WaitTrackerTest, ALockIsHeldFromTheRunOnNotFromTheReturnOfTheCall) {
  play({exit(100), on(2, futex(150, kHolder, 0x1000, kWait)),
        on(2, sched(151, kHolder, kIdle, false)), futex(190, kVcpu0, 0x1000, kWait),
        sched(200, kVcpu0, kIdle, false), futex(239, kOtherThread, 0x1000, kWake),
        wakes(240, kHolder, kOtherThread), context(241, HostStep::kFutexEnd),
        on(2, sched(250, kIdle, kHolder)), on(2, futex_end(254, kHolder)),
        futex(259, kHolder, 0x1000, kWake), waking(260, kHolder), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 40", "blocked futex of 8 10",
                                   "blocked lock of 8 10", "idle 40"));
}

// A state or a counter may have a lock's value for a while.
TEST_F(WaitTrackerTest, WhereSomebodyWaitedForAnotherValueThereIsNoLock) {
  play({futex(50, kOtherThread, 0x1000, kWait, 1), exit(100),
        on(2, futex(150, kHolder, 0x1000, kWait)), on(2, sched(151, kHolder, kIdle, false)),
        futex(190, kVcpu0, 0x1000, kWait), sched(200, kVcpu0, kIdle, false),
        futex(239, kOtherThread, 0x1000, kWake), wakes(240, kHolder, kOtherThread),
        on(2, sched(250, kIdle, kHolder)), futex(259, kHolder, 0x1000, kWake), waking(260, kHolder),
        sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 40", "blocked futex of 8 20", "idle 40"));
}

TEST_F(WaitTrackerTest, WhoWaitedForItAgainDidNotHoldIt) {
  play({exit(100), on(2, futex(150, kHolder, 0x1000, kWait)),
        on(2, sched(151, kHolder, kIdle, false)), futex(190, kVcpu0, 0x1000, kWait),
        sched(200, kVcpu0, kIdle, false), futex(209, kOtherThread, 0x1000, kWake),
        wakes(210, kHolder, kOtherThread), on(2, sched(220, kIdle, kHolder)),
        on(2, futex(225, kHolder, 0x1000, kWait)), futex(259, kHolder, 0x1000, kWake),
        waking(260, kHolder), sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 10", "blocked futex of 8 50", "idle 40"));
}

// An event that one thread passes on: the value is not that of a lock, or all are woken.
TEST_F(WaitTrackerTest, AFutexThatIsNoLockIsHeldByNobody) {
  for (const auto& [expected, most] : {std::pair{0, 1}, {2, 1000}}) {
    shares_.clear();
    play({exit(100), on(2, futex(150, kHolder, 0x1000, kWait, expected)),
          on(2, sched(151, kHolder, kIdle, false)), futex(190, kVcpu0, 0x1000, kWait, expected),
          sched(200, kVcpu0, kIdle, false), futex(239, kOtherThread, 0x1000, kWake, 1),
          wakes(240, kHolder, kOtherThread), on(2, sched(250, kIdle, kHolder)),
          futex(259, kHolder, 0x1000, kWake, most), waking(260, kHolder), sched(300, kIdle, kVcpu0),
          entry(400)});
    EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 40", "blocked futex of 8 20", "idle 40"));
  }
}

TEST_F(WaitTrackerTest, OnlyItsOwnerLetsGoOfAPiLock) {
  play({exit(100), on(2, futex(150, kHolder, 0x1000, kLockPi)),
        on(2, sched(151, kHolder, kIdle, false)), futex(190, kVcpu0, 0x1000, kLockPi),
        sched(200, kVcpu0, kIdle, false), futex(239, kOtherThread, 0x1000, kUnlockPi),
        wakes(240, kHolder, kOtherThread), on(2, sched(250, kIdle, kHolder)),
        futex(259, kHolder, 0x1000, kUnlockPi), waking(260, kHolder), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked lock of 7 40", "blocked futex of 8 10",
                                   "blocked lock of 8 10", "idle 40"));
}

// The lock is handed to the one that waits first, and another takes it before that one runs: it
// wakes nobody when it lets go.
TEST_F(WaitTrackerTest, APiLockIsHeldFromTheOwnersAcquisitionOn) {
  play({exit(100), on(2, futex(150, kHolder, 0x1000, kLockPi)),
        on(2, sched(151, kHolder, kIdle, false)), futex(190, kVcpu0, 0x1000, kLockPi),
        sched(200, kVcpu0, kIdle, false), futex(209, kOtherThread, 0x1000, kUnlockPi),
        wakes(210, kHolder, kOtherThread), context(211, HostStep::kFutexEnd),
        futex(215, kOtherThread, 0x1000, kLockPi), context(216, HostStep::kFutexEnd),
        futex(240, kOtherThread, 0x1000, kUnlockPi), context(241, HostStep::kFutexEnd),
        on(2, sched(250, kIdle, kHolder)), on(2, futex_end(251, kHolder)),
        futex(259, kHolder, 0x1000, kUnlockPi), waking(260, kHolder), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_,
              ElementsAre("blocked lock of 7 10", "blocked futex of 7 6", "blocked lock of 7 24",
                          "blocked futex of 8 11", "blocked lock of 8 9", "idle 40"));
  EXPECT_EQ(waits_, shares_);
}

// Of another process, perhaps: nothing leads from it to this wait.
TEST_F(WaitTrackerTest, WhoLetGoOfAPiLockIsTheOneThatTheWakeUpsLeadTo) {
  play({exit(100), on(2, futex(150, kHolder, 0x1000, kLockPi)),
        on(2, sched(151, kHolder, kIdle, false)), futex(190, kVcpu0, 0x1000, kLockPi),
        sched(200, kVcpu0, kIdle, false), futex(215, kOtherThread, 0x1000, kLockPi),
        context(216, HostStep::kFutexEnd), futex(240, kOtherThread, 0x1000, kUnlockPi),
        context(241, HostStep::kFutexEnd), on(2, sched(250, kIdle, kHolder)),
        on(2, futex_end(251, kHolder)), futex(259, kHolder, 0x1000, kUnlockPi),
        waking(260, kHolder), sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked futex of 8 51", "blocked lock of 8 9", "idle 40"));
}

TEST_F(WaitTrackerTest, WhoTookAPiLockWhileOthersWaitedHeldItFromThenOn) {
  play({exit(100), futex(190, kVcpu0, 0x1000, kLockPi), sched(200, kVcpu0, kIdle, false),
        futex(215, kOtherThread, 0x1000, kLockPi), context(220, HostStep::kFutexEnd),
        futex(259, kOtherThread, 0x1000, kUnlockPi), waking(260), sched(300, kIdle, kVcpu0),
        entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 20", "blocked lock of 7 40", "idle 40"));
}

// It was woken, and sleeps in read() of an eventfd: without sys_exit_futex nothing else tells.
TEST_F(WaitTrackerTest, WhoSleptInACallAndRanWaitsForNoFutexInTheNextSleep) {
  for (const auto& [wait, wake] : {std::pair{kWait, kWake}, {kLockPi, kUnlockPi}}) {
    shares_.clear();
    play({exit(100), futex(110, kVcpu0, 0x1000, wait), sched(120, kVcpu0, kIdle, false),
          futex(129, kOtherThread, 0x1000, wake), waking(130), sched(140, kIdle, kVcpu0),
          sched(200, kVcpu0, kIdle, false), futex(255, kOtherThread, 0x1000, wake), waking(260),
          sched(300, kIdle, kVcpu0), entry(400)});
    EXPECT_THAT(shares_.at(2), "blocked 7 60");
  }
}

TEST_F(WaitTrackerTest, WhereReturnsAreRecordedAThreadMaySleepTwiceInACall) {
  play({on(1, futex_end(50, kHolder)), exit(100), futex(110, kVcpu0, 0x1000, kWait),
        sched(120, kVcpu0, kIdle, false), waking(130), sched(140, kIdle, kVcpu0),
        sched(200, kVcpu0, kIdle, false), futex(255, kOtherThread, 0x1000, kWake), waking(260),
        sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked 7 10", "idle 10", "blocked futex of 7 60", "idle 40"));
}

TEST_F(WaitTrackerTest, QemusTraceTellsWhoAcquiredALock) {
  play(
      {exit(100), futex(190, kVcpu0, 0x1000, kWait),
       on(1, marker(195, "qemu_mutex_locked taken mutex 0x1000 (main-loop.c:312)\n", kOtherThread)),
       sched(200, kVcpu0, kIdle, false), futex(255, kOtherThread, 0x1000, kWake), waking(260),
       sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked lock of 7 60", "idle 40"));
}

TEST_F(WaitTrackerTest, TheSameAddressInAnotherProcessIsAnotherFutex) {
  play({exit(100), on(2, futex(150, kHolder, 0x1000, kWait)),
        on(2, sched(151, kHolder, kIdle, false)), futex(190, kVcpu0, 0x1000, kWait),
        sched(200, kVcpu0, kIdle, false), futex(239, ThreadId{9}, 0x1000, kWake),
        wakes(240, kHolder, ThreadId{9}), futex(259, kOtherThread, 0x1000, kWake), waking(260),
        sched(300, kIdle, kVcpu0), entry(400)});
  EXPECT_THAT(shares_, ElementsAre("blocked futex of 7 60", "idle 40"));
}

}  // namespace
}  // namespace trapline::test
