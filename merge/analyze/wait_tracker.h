// Divides the time that vCPU threads are off their CPUs among those who kept them waiting.
//
//                 switched out, runnable                         switched in
//      ┌──────────────────────────────────────> waiting ──────────────────────> running
//   running                                        ^
//      └────────────────────> asleep ──────────────┘
//           asleep                     woken
//
//   asleep:  charged to what woke it (WakeCause); a waker that slept for most of that time says for
//            what (Culprit::root), along the chain of wakers; in a page fault as far as another
//            thread brought the page (PageServers)
//   waiting: charged to what ran on the CPU whose queue it was in (CpuRunners): that on which it
//            was switched out, or to which sched_wakeup or sched_migrate_task says it went;
//            without those of a wake-up, the one that it ran on next. A CPU that went idle with the
//            thread in its queue was not allowed to run it: by a CPU quota as far as cpu.stat of
//            the thread's cgroups counts throttled time (CpuQuotas) and its policy is not a
//            real-time one. Where not all threads' switches are recorded (RecordedSwitches), those
//            who ran are not known
//
// The shares of an exit sum to its preempted and blocked parts exactly; what nothing proves is
// unknown and says which event would tell.
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

// A thread of the host that slept was woken.
struct Waking {
  ThreadId thread{};
  Culprit by;
};

class WaitTracker {
 public:
  static constexpr std::size_t kMostThreads = 1u << 16;
  static constexpr std::size_t kMostShares = 1u << 15;  // of a thread between two exits
  static constexpr std::size_t kMostHeld = 1u << 20;    // of all threads

  [[nodiscard]] static bool looks_at(const Payload& payload) {
    return is_any_of<Marker, Lost, HostEvent, BlockIo, IoctlEnter>(payload);
  }
  // Every event of the host that it looks at, or that changed a thread, after the pipeline took it.
  void on(const Event& event, const Pipeline& pipeline);
  // The figures begin there: of waits that began before it the rest is handed out.
  void begin_at(Timestamp begin) {
    begin_ = begin;
    counters_ = {};
  }
  // Another event came: what the last one ended is past.
  void pass() {
    has_ended_ = false;
    woke_.reset();
  }

  // The wait that the last event ended: its thread runs again. Nothing where it ended none.
  [[nodiscard]] const EndedWait* ended() const { return has_ended_ ? &ended_ : nullptr; }

  // The sleep that the last event ended.
  [[nodiscard]] const std::optional<Waking>& woke() const { return woke_; }
  // The shares so far of the thread's wait that has not ended.
  [[nodiscard]] std::span<const WaitShare> open(ThreadId thread) const;

  // Takes the shares of an exit from those of its thread. It needs the exit's intervals.
  void on_exit(const ExitSpan& exit);
  // Of the exit that was taken last, in order of time.
  [[nodiscard]] std::span<const WaitShare> shares() const { return of_exit_; }
  // The sleeps in its halted time, with what ended them.
  [[nodiscard]] std::span<const WaitShare> halts() const { return halts_; }
  [[nodiscard]] const WaitCounters& counters() const { return counters_; }
  // Of the culprits in them.
  [[nodiscard]] const CulpritNames& names() const { return names_; }

 private:
  struct Thread {
    enum class State : std::uint8_t { kRunning, kAsleep, kWaiting };
    State state = State::kRunning;
    bool queue_known = true;  // kWaiting: cpu is the one whose queue it is in
    bool woken = false;       // kWaiting: since a wake-up, and not moved after it
    bool fair = true;         // a CPU quota applies to it
    // What woke it was a handler of this kind, if an end of one is recorded before it runs.
    std::optional<WakeCause::HandlerKind> without_end;
    Timestamp queued;  // kWaiting: in that queue at the latest
    std::uint32_t cpu = 0;
    Timestamp since;                // of the state, or of the last move between queues
    std::size_t first = 0;          // of the current wait, in shares
    std::vector<WaitShare> shares;  // those since the last exit
    // Shares of this time found no place.
    Timestamp dropped_from, dropped_until;
    [[nodiscard]] bool dropped(Timestamp at) const {
      return dropped_from <= at && at < dropped_until;
    }
  };

  // What a sleep waited for, at the end of the chain of wakers.
  struct Root {
    CulpritKind kind = CulpritKind::kUnknown;
    ThreadId thread{};  // where it is one
  };
  // The end of the last sleep of any thread: a waker's tells what it waited for itself.
  struct Woken {
    Timestamp at;
    Root cause;
  };

  void on(const ThreadChange& change, const Pipeline& pipeline);
  void on_wakeup(Thread& thread, const ThreadChange& change);
  void end_sleep(const ThreadChange& change, Thread* thread, const Pipeline& pipeline);
  void on_migration(Thread& thread, const ThreadChange& change);
  void on_interrupt(const Event& event, const HostEvent& host);
  void charge_sleep(Thread& thread, const Culprit& by, const Root& root, Timestamp end,
                    const Threads& threads);
  void charge_page(Thread& thread, const Culprit& by, const Root& root);
  void doubt_handler(Thread& thread) const;
  [[nodiscard]] Root root_of(const Culprit& waker, Timestamp since, Timestamp until,
                             const Threads& threads) const;
  void on_lost(const Event& event, const Lost& lost);
  void leave(Thread& thread, const ThreadChange& change);
  void run(Thread& thread, const ThreadChange& change, const Pipeline& pipeline);
  void name_culprits(std::span<WaitShare> shares, const Pipeline& pipeline);
  void charge(Thread& thread, Part part, const Culprit& culprit, Timestamp end, ThreadId root = {});
  void divide(ThreadId id, Thread& thread, std::uint32_t cpu, Timestamp end);
  static void drop(Thread& thread, Timestamp from, Timestamp until);
  void clear(Thread& thread);
  void make_room();
  void add_rest(const ExitSpan& exit);
  void add_halts(const PartInterval& halted, std::span<const WaitShare> shares);

  CpuRunners runners_;
  std::optional<CpuQuotas> quotas_;  // what is left of them
  WakeCause cause_;
  PageServers servers_;
  LossTable<Thread> threads_;
  ThreadTable<Woken> woken_;
  CulpritNames names_;
  WaitCounters counters_;
  Timestamp begin_;       // of begin_at()
  std::size_t held_ = 0;  // shares
  std::vector<WaitShare> of_exit_, halts_, ended_shares_;
  EndedWait ended_;
  std::optional<Waking> woke_;
  bool has_ended_ = false;
};

// The largest culprit of a part by its sum; the earliest of equals. Nothing without shares of it.
struct LargestCulprit {
  Culprit culprit;
  std::uint64_t ns = 0;
};
[[nodiscard]] LargestCulprit largest(std::span<const WaitShare> shares, Part part);

}  // namespace trapline
