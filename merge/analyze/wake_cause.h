// Finds who or what caused a wake-up, as far as the events on the waker's CPU prove it.
//
// A wake-up in a thread's own context is caused by that thread. A wake-up in an interrupt is caused
// by the innermost handler (of a timer, an interrupt line or a softirq) that is open on the CPU at
// the event's interrupt level, if the ends of such handlers are recorded too; or by the disk, if a
// read or write ended in that handler. Otherwise the cause is unknown: the thread that the
// interrupt hit has nothing to do with it. An interrupt sent by a vCPU woke the vCPUs that it was
// sent to. FutexWakes gives more details for a thread that waits for a futex.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/analyze/threads.h"
#include "merge/model/host_event.h"
#include "merge/model/thread_table.h"

namespace trapline {

// Finds which threads wait for a futex and which wake them, from sys_enter_futex and the wake-ups
// inside these calls: whose call ended a thread's wait, and who held the lock during the wait.
//
//   holder A ── locked in user space ──────── FUTEX_WAKE(m)
//   B        ── FUTEX_WAIT(m) ··················│ woken ─ runs: acquired ─ FUTEX_WAKE(m)
//   the vCPU ───── FUTEX_WAIT(m) ···············│···························│ woken
//   charged to:    the futex of A               │ of B  │ lock, held by B   │
//
// A call of FUTEX_WAKE does not prove that its caller held a lock: it may signal an event. A thread
// counts as the holder from its own acquisition on, if one of these is known. (1) It waited for the
// same lock, was woken by a wake-up for it, ran, and did not wait for it again before releasing it;
// and no thread waited at that address for a value other than a lock's. (2) QEMU traced
// qemu_mutex_locked. (3) It called FUTEX_UNLOCK_PI, which only the owner can. Then it held the lock
// since its own FUTEX_LOCK_PI succeeded, because another thread may take the lock before the thread
// that gets it runs; or the whole time if it made no such call, because no thread acquires the lock
// in user space while others wait. The thread that calls FUTEX_UNLOCK_PI may wake nobody, because
// its successor is already awake; then only the call is kept.
//
// Without sys_exit_futex the end of a call is not known. A thread that slept in a call and runs
// again may have returned and may sleep in another system call next, so it no longer counts as
// waiting.
class FutexWakes {
 public:
  static constexpr std::size_t kMostWakes = 1u << 10;

  void on_call(const Event& event, const HostEvent& call);  // sys_enter_futex
  void on_return(ThreadId thread, Timestamp at);            // sys_exit_futex
  void on_run(const ThreadChange& change);                  // the thread got a CPU
  // Takes QEMU's qemu_mutex_locked and qemu_mutex_unlock; returns false for other events of QEMU.
  bool on_mutex(ThreadId thread, Timestamp at, std::string_view name, std::string_view text);
  // Forgets all calls and wake-ups, since any loss can hide a call.
  void on_lost();

  // Returns true if the waker was in a call that wakes the waiters of the futex that the woken
  // thread waits for.
  bool on_wake(const ThreadChange& wakeup);

  // A piece of a wait for a futex, which begins where the piece before ends.
  struct Piece {
    ProvenCulprit culprit;
    Timestamp end;
  };
  // Returns the wait that the last on_wake() ended, from `since` on: pieces in order of time
  // without gaps, each kFutex or kLock of a thread, or unknown. Valid until the next call.
  [[nodiscard]] const std::vector<Piece>& pieces(Timestamp since);

 private:
  static constexpr std::size_t kMostThreads = 1u << 12, kMostOthers = 1u << 16;
  enum class Kind : std::uint8_t { kOther, kWait, kWake, kLockPi, kUnlockPi };
  struct Thread {
    Timestamp called;
    std::uint64_t address = 0;
    std::int32_t value = 0;  // kWait: the expected value; kWake: how many may be woken
    std::int32_t woken = 0;  // number of threads woken by this call
    Kind kind = Kind::kOther;
    bool in_call = false;
    bool got_wake = false;  // woken for the futex that it waits for, and has not run since
    // Address of a lock that the thread acquired after waiting, or according to QEMU; 0: none.
    std::uint64_t held = 0;
    Timestamp held_since;
    std::uint64_t let_go = 0;  // kUnlockPi: 1 + the number of this call's Wake; 0: none
  };
  struct Wake {
    std::uint64_t address = 0;     // 0: a later Wake replaced this one
    EventRef by;                   // the wake-up, or the call of a thread that woke nobody
    ThreadId waking{}, waiting{};  // equal if `waking` released a lock and woke nobody
    Timestamp held_since = {};     // by `waking`; 0: when it acquired the lock is not known
    // True if `waking` held a PI lock. If held_since is not known then, `waking` has held the lock
    // since before any thread waited for it.
    bool pi = false;
  };
  [[nodiscard]] static bool wakes(const Thread& waking, const Thread& waiting, Timestamp at);
  [[nodiscard]] Wake& wake_at(std::uint64_t number) {
    return wakes_[number - (added_ - wakes_.size())];
  }
  void add(const Wake& wake);
  // Returns since when `waking`, which is in FUTEX_UNLOCK_PI, held the lock. Removes the Wake that
  // the call added without a woken thread; the caller then adds one with the woken thread.
  Timestamp held_until_woken(const Thread& waking);

  ThreadTable<Thread> threads_;
  bool returns_recorded_ = false;
  [[nodiscard]] bool may_be_lock(std::uint64_t address) const {
    return others_.size() < kMostOthers && !others_.contains(address);
  }

  std::unordered_set<std::uint64_t> others_;  // futexes that are not locks: counters, states
  std::deque<Wake> wakes_;                    // the latest
  std::uint64_t added_ = 0;                   // number of wakes ever added
  std::vector<Piece> pieces_;
  std::vector<std::uint64_t> chain_, let_go_;
};

class Pipeline;

class WakeCause {
 public:
  enum class HandlerKind : std::uint8_t { kNone, kTimer, kInterrupt, kSoftirq };

  void on(const Event& event, const HostEvent& host);
  void on_disk(std::uint32_t cpu, const BlockIo& block);  // block_rq_complete
  void on_run(const ThreadChange& change);
  void on_lost(std::uint32_t cpu);
  void on_vmm_event(const Event& event, NameId name, std::string_view text, const Pipeline& of);
  // Returns the cause of the wake-up. The sleep began at wakeup.since.
  [[nodiscard]] ProvenCulprit of(const ThreadChange& wakeup, const Pipeline& pipeline);
  // Returns the kind of the handler that of() named last, if no end of that kind was recorded so
  // far: without ends a handler seems to last until the CPU switches.
  [[nodiscard]] HandlerKind without_end() const { return without_end_; }
  [[nodiscard]] bool ends(HandlerKind kind) const { return ends_[static_cast<std::size_t>(kind)]; }
  // Returns the calls that tell who released and who held the futex, after of() returned kFutex.
  [[nodiscard]] FutexWakes& futexes() { return futexes_; }

 private:
  static constexpr std::size_t kMostThreads = 1u << 12;
  static constexpr std::size_t kMostHandlers = 8;  // open at once, per CPU
  struct Handler {
    HandlerKind kind = HandlerKind::kNone;
    InterruptLevel level = InterruptLevel::kNone;
    bool disk = false;
    std::uint32_t number = 0;
  };
  struct Cpu {
    std::array<Handler, kMostHandlers> open;  // the innermost is the last
    std::size_t depth = 0;
    Timestamp ipi_at;
    ThreadId ipi_from{-1};
    std::int32_t ipi_to = HostEvent::kNotKnown;
  };
  struct LastVmmEvent {
    Timestamp at;
    NameId name = kNoName;
  };
  [[nodiscard]] Cpu* cpu_of(std::uint32_t cpu);
  static void begin(Cpu& cpu, Handler handler);
  void end(Cpu& cpu, HandlerKind kind);
  [[nodiscard]] ProvenCulprit in_interrupt(const Cpu& cpu, const ThreadChange& wakeup);
  [[nodiscard]] static bool is_ipi(const Cpu& cpu, const ThreadChange& wakeup, const Pipeline& of);

  std::vector<Cpu> cpus_;
  // By HandlerKind; kNone has no end to record.
  std::array<bool, static_cast<std::size_t>(HandlerKind::kSoftirq) + 1> ends_{true};
  HandlerKind without_end_ = HandlerKind::kNone;
  FutexWakes futexes_;
  ThreadTable<LastVmmEvent> last_vmm_events_;
};

}  // namespace trapline
