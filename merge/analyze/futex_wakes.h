// Threads that wait for a futex and those that wake them, from sys_enter_futex and the wake-ups
// inside those calls: until whose call a thread waited, and who held the lock meanwhile.
//
//   holder A ── locked in user space ──────── FUTEX_WAKE(m)
//   B        ── FUTEX_WAIT(m) ··················│ woken ─ runs: acquired ─ FUTEX_WAKE(m)
//   the vCPU ───── FUTEX_WAIT(m) ···············│···························│ woken
//   charged to:    the futex of A               │ of B  │ lock, held by B   │
//
// A call of FUTEX_WAKE does not prove that its caller held a lock: it may signal an event. "Held"
// is said from the caller's own acquisition on: where it waited for the same lock itself, was woken
// by a wake-up for it, ran, and did not wait for it again before it let go, and nobody waited there
// for another value than a lock's; where QEMU traced qemu_mutex_locked; or where it called
// FUTEX_UNLOCK_PI, which only the owner can: since its own FUTEX_LOCK_PI got the lock, for another
// thread may take it from the one that it was handed to before that one runs; and the whole time
// where it made no such call, since nobody acquires it in user space while others wait. Such a
// thread wakes nobody when it lets go, for the heir is awake already: the call alone is kept.
//
// Without sys_exit_futex nothing tells when a call ends. A thread that slept in one and runs again
// may have returned, and may sleep in another system call next: it waits for no futex then.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/model/host_event.h"
#include "merge/model/thread_table.h"

namespace trapline {

class FutexWakes {
 public:
  static constexpr std::size_t kMostWakes = 1u << 10;

  void on_call(ThreadId thread, Timestamp at, const HostEvent& call);  // sys_enter_futex
  void on_return(ThreadId thread, Timestamp at);                       // sys_exit_futex
  void on_sleep(ThreadId thread);              // it left its CPU and is not runnable
  void on_run(ThreadId thread, Timestamp at);  // it got a CPU
  // QEMU's qemu_mutex_locked and qemu_mutex_unlock; false for another event of QEMU's.
  bool on_mutex(ThreadId thread, Timestamp at, std::string_view name, std::string_view text);
  // Any loss can hide a call.
  void on_lost();

  // `waking` woke `waiting` at that time. True where it was in a call that wakes those who wait for
  // the futex that `waiting` waits for.
  bool on_wake(ThreadId waiting, ThreadId waking, Timestamp at);

  // The wait that the last on_wake() ended, from `since` on: pieces in order of time, without a
  // gap, each kFutex or kLock of a thread, or unknown. Valid until the next call.
  struct Piece {
    Culprit culprit;
    Timestamp end;
  };
  [[nodiscard]] const std::vector<Piece>& pieces(Timestamp since);

 private:
  static constexpr std::size_t kMostThreads = 1u << 12, kMostOthers = 1u << 16;
  enum class Kind : std::uint8_t { kOther, kWait, kWake, kLockPi, kUnlockPi };
  struct Thread {
    Timestamp called;
    std::uint64_t address = 0;
    std::int32_t value = 0;  // kWait: expected there; kWake: how many may be woken
    std::int32_t woken = 0;  // by this call
    Kind kind = Kind::kOther;
    bool in_call = false;
    bool slept = false;     // in this call
    bool got_wake = false;  // of the futex that it waits for; it has not run since
    // A lock that it acquired after it had waited for it, or told by QEMU.
    std::uint64_t held = 0;
    Timestamp held_since;
    std::uint64_t let_go = 0;  // kUnlockPi: 1 + the number of this call's Wake; 0: it has none
  };
  struct Wake {
    std::uint64_t address = 0;  // 0: told by a later one
    Timestamp at;
    ThreadId waking{}, waiting{};  // the same thread: it let go of a lock and woke nobody
    Timestamp held_since;          // by `waking`; 0: its acquisition is not known
    bool pi = false;  // held by `waking`; since before anyone waited, where that is not known
  };
  [[nodiscard]] static bool wakes(const Thread& waking, const Thread& waiting, Timestamp at);
  [[nodiscard]] const Wake& wake_at(std::uint64_t number) const {
    return wakes_[number % kMostWakes];
  }
  void add(const Wake& wake);
  // Since when `waking`, in FUTEX_UNLOCK_PI, held the lock; its call is no wake of its own then.
  Timestamp held_until_woken(const Thread& waking);

  ThreadTable<Thread> threads_;
  bool returns_recorded_ = false;
  [[nodiscard]] bool may_be_lock(std::uint64_t address) const {
    return others_.size() < kMostOthers && !others_.contains(address);
  }

  std::unordered_set<std::uint64_t> others_;  // futexes that are no locks: counters, states
  std::vector<Wake> wakes_;                   // a ring once it is full
  std::uint64_t added_ = 0;
  std::vector<Piece> pieces_;
  std::vector<std::uint64_t> chain_, let_go_;
};

}  // namespace trapline
