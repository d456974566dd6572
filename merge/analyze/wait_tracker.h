// Divides the time that vCPU threads are off their CPUs by the culprits that kept them waiting.
//
//                 switched out, runnable                         switched in
//      ┌──────────────────────────────────────> waiting ──────────────────────> running
//   running                                        ^
//      └────────────────────> asleep ──────────────┘
//           asleep                     woken
//
//   asleep:  charged to what woke the thread (WakeCause). If the waker itself slept for most of
//            that time, Culprit::root says what for, along the chain of wakers. In a page fault,
//            the time in which another thread brought the page is charged to that thread
//            (PageServers).
//   waiting: charged to what ran on the CPU in whose queue the thread was (CpuRunners): the CPU on
//            which it was switched out, or to which sched_wakeup or sched_migrate_task moved it;
//            without these events of a wake-up, the CPU on which it ran next. A CPU that went idle
//            with the thread in its queue was not allowed to run it. A CPU quota is the reason as
//            far as cpu.stat of the thread's cgroups counts throttled time (CpuQuotas), unless the
//            thread's policy is a real-time one. If not all threads' switches are recorded
//            (RecordedSwitches), it is not known what ran.
//
// The shares of an exit sum exactly to its preempted and blocked parts. A culprit that nothing
// proves is unknown, and Culprit::missing says which event would show it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "merge/analyze/cpu_runners.h"
#include "merge/analyze/memory_waits.h"
#include "merge/analyze/wake_cause.h"
#include "merge/model/processes.h"

namespace trapline {

class Pipeline;

struct EndedWait {
  ThreadId thread{};
  std::span<const WaitShare> shares;  // in order of time; valid until the next event
};

// The end of a host thread's sleep: the thread, and the culprit that woke it.
struct Waking {
  ThreadId thread{};
  ProvenCulprit by;
};

class WaitTracker {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16;
  static constexpr std::size_t kMostShares = 1u << 15;  // shares of a thread between two exits
  static constexpr std::size_t kMostHeld = 1u << 20;    // shares of all threads

  // The results that are asked for. kWakers: woke(); kSleeps: also the shares of sleeps; kAll: also
  // those of waits for a CPU, and the locks of QEMU in both.
  enum class Finds : std::uint8_t { kWakers, kSleeps, kAll };
  explicit WaitTracker(Finds finds) : finds_(finds) {}
  static constexpr std::uint32_t kTakes = kPayloads<Marker, HostEvent, BlockIo, IoctlEnter>;
  // Takes every event of the host with a payload in kTakes, or that changed a thread, after
  // ExitTracker.
  void on(const Event& event, const Pipeline& pipeline);
  // Does what CpuQuotas::move() does.
  void move_quotas(ThreadId from, ThreadId to) {
    if (quotas_) quotas_->move(from, to);
  }
  // Ends the thread's wait, because the thread has ended.
  void end(ThreadId thread);
  // Makes the figures begin at this time: of waits that began before, only the rest is returned.
  void begin_at(Timestamp begin) {
    begin_ = begin;
    counters_ = {};
  }
  // Makes the figures end at this time. awaits() returns whether a wait that was open then has not
  // ended yet. Of such a wait, only the part before `end` is returned.
  void end_at(Timestamp end);
  [[nodiscard]] bool awaits() const { return !open_at_end_.empty(); }
  // Ends a wait for a CPU that was open at the recording's end, which no event ended. Returns it as
  // ended() does; nullptr: none is left.
  [[nodiscard]] const EndedWait* finish(Timestamp end, const Pipeline& pipeline);
  // Clears the results of the last event; call it for events that on() does not take.
  void pass() {
    has_ended_ = false;
    woke_.reset();
  }

  // Returns the wait that the last event ended, because its thread runs again; nullptr if it ended
  // none.
  [[nodiscard]] const EndedWait* ended() const { return has_ended_ ? &ended_ : nullptr; }

  // Returns the sleep that the last event ended; nullopt: none.
  [[nodiscard]] const std::optional<Waking>& woke() const { return woke_; }
  // Returns whether the ends of timers were recorded.
  [[nodiscard]] bool knows_timers() const { return cause_.ends(WakeCause::HandlerKind::kTimer); }
  // Returns the shares so far of the thread's open wait.
  [[nodiscard]] std::span<const WaitShare> open(ThreadId thread) const;

  // Takes the shares of an exit from those of its thread. The exit must have its intervals.
  void on_exit(const ExitSpan& exit) {
    if (finds_ != Finds::kWakers) find_shares(exit);
  }
  // Returns the shares of the exit that on_exit() got, in order of time.
  [[nodiscard]] std::span<const WaitShare> shares() const { return of_exit_; }
  // Returns the sleeps in the halted time of the exit that on_exit() got, with what ended them.
  [[nodiscard]] std::span<const WaitShare> halts() const { return halts_; }
  [[nodiscard]] const WaitCounters& counters() const { return counters_; }
  // Returns the names of the culprits in all shares.
  [[nodiscard]] const CulpritNames& names() const { return names_; }

 private:
  struct Thread {
    enum class State : std::uint8_t { kRunning, kAsleep, kWaiting };
    State state = State::kRunning;
    bool queue_known = true;  // kWaiting: the thread is in the queue of `cpu`
    bool woken = false;       // kWaiting: since a wake-up, and not moved afterwards
    bool fair = true;         // a CPU quota applies to the thread
    // Set if a handler of this kind woke the thread and no end of such a handler had been recorded
    // by then.
    WakeCause::HandlerKind without_end = WakeCause::HandlerKind::kNone;
    Timestamp queued;  // kWaiting: since when the thread certainly was in the queue of `cpu`
    std::uint32_t cpu = 0;
    Timestamp since;                // begin of the state, or the last move between queues
    std::size_t first = 0;          // index of the current wait's first share
    std::vector<WaitShare> shares;  // since the last exit
    // The time whose shares had no room.
    Timestamp dropped_from, dropped_until;
    [[nodiscard]] bool dropped(Timestamp at) const {
      return dropped_from <= at && at < dropped_until;
    }
  };

  // The cause of a sleep at the end of the chain of wakers.
  struct Root {
    CulpritKind kind = CulpritKind::kUnknown;
    ThreadId thread{};  // if the cause is a thread
  };
  // The end of a thread's last sleep, which shows what a waker itself waited for.
  struct Woken {
    Timestamp at;
    Root cause;
  };

  void on(const ThreadChange& change, const Pipeline& pipeline);
  void on_wakeup(Thread& thread, const ThreadChange& change);
  void end_sleep(const ThreadChange& change, Thread* thread, const Pipeline& pipeline);
  void on_migration(Thread& thread, const ThreadChange& change);
  void charge_sleep(Thread& thread, const ProvenCulprit& by, const Root& root, Timestamp end,
                    const Threads& threads);
  void charge_page(Thread& thread, const ProvenCulprit& by, const Root& root);
  void doubt_handler(Thread& thread) const;
  [[nodiscard]] Root root_of(const Culprit& waker, Timestamp since, Timestamp until,
                             const Threads& threads) const;
  void leave(Thread& thread, const ThreadChange& change);
  void run(Thread& thread, const ThreadChange& change, const Pipeline& pipeline);
  ThreadId named(ThreadId thread, Timestamp at, const Pipeline& pipeline);
  void name_culprits(std::span<WaitShare> shares, const Pipeline& pipeline);
  void charge(Thread& thread, Part part, const ProvenCulprit& culprit, Timestamp end,
              ThreadId root = {});
  void divide(ThreadId id, Thread& thread, std::uint32_t cpu, Timestamp end);
  void cut(Thread& thread);
  static void drop(Thread& thread, Timestamp from, Timestamp until);
  void clear(Thread& thread);
  void make_room();
  void find_shares(const ExitSpan& exit);
  void add_rest(const ExitSpan& exit);
  void add_halts(const PartInterval& halted, std::span<const WaitShare> shares);

  Finds finds_;
  CpuRunners runners_;
  std::optional<CpuQuotas> quotas_;  // the quotas' remaining time
  WakeCause cause_;
  PageServers servers_;
  LossTable<Thread> threads_;
  ThreadTable<Woken> woken_;
  CulpritNames names_;
  WaitCounters counters_;
  Timestamp begin_;                    // the time given to begin_at()
  Timestamp end_{~std::uint64_t{0}};   // the time given to end_at()
  std::vector<ThreadId> open_at_end_;  // the threads that awaits() is for
  std::size_t held_ = 0;               // number of shares held
  std::vector<WaitShare> of_exit_, halts_, ended_shares_;
  EndedWait ended_;
  std::optional<Waking> woke_;
  bool has_ended_ = false;
};

// The culprit with the largest sum of time in a part, or the earliest of equal ones; ns is 0
// without shares.
struct LargestCulprit {
  Culprit culprit;
  std::uint64_t ns = 0;
};
[[nodiscard]] LargestCulprit largest(std::span<const WaitShare> shares, Part part);

}  // namespace trapline
