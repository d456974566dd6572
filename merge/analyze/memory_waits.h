// Finds what kept a thread that touched memory waiting: reclaim, unmapped pages, or pages that
// another thread brings in.
//
// Work that a thread does itself: it reclaims or compacts memory before it gets some, or a vCPU
// waits for user space because its log of dirty pages is full.
//
//   mm_vmscan_*reclaim_begin ── reclaims, or waits in it ── mm_vmscan_*reclaim_end
//   kvm_dirty_ring_exit ── user space reads the ring ── kvm_entry
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "merge/analyze/culprit.h"
#include "merge/analyze/threads.h"
#include "merge/model/event.h"
#include "merge/model/host_event.h"
#include "merge/model/thread_table.h"
#include "merge/model/timestamp.h"

namespace trapline {

enum class MemoryWork : std::uint8_t {
  kNone,
  kReclaim,
  kCompaction,
  kCollapse,  // another thread collapses small pages into a huge one
  kUnmap,     // another thread unmaps memory, so KVM retries the page fault (MMU notifier)
  kDirtyLog,
};

// The memory work of one thread. Work without a recorded end does not count, since its length is
// not known. Work nested in other work does not count by itself.
class MemoryWorks {
 public:
  static constexpr std::size_t kMost = 1u << 15;  // further runs are not reported
  struct Run {
    MemoryWork work = MemoryWork::kNone;
    Timestamp begin, end;
  };

  [[nodiscard]] static bool looks_at(HostStep step) {
    return (step >= HostStep::kReclaimBegin && step <= HostStep::kCompactionEnd) ||
           step == HostStep::kDirtyRingFull;
  }
  // Takes an event of the thread for whose step looks_at() is true.
  void on(HostStep step, Timestamp at);
  // Takes the thread's entry into the guest: it ends a wait for the dirty ring, and drops other
  // open work, which the thread cannot be doing any more.
  void on_entry(Timestamp at);
  // Forgets open work after a loss of events.
  void forget_open() { open_.reset(); }
  // Returns the ended work, except what was forgotten, in order; no two overlap.
  [[nodiscard]] std::span<const Run> ended() const { return ended_; }
  void forget_until(Timestamp at) {
    std::erase_if(ended_, [at](const Run& run) { return run.end <= at; });
  }

 private:
  std::optional<Run> open_;
  std::size_t inner_ = 0;  // pieces of work that are open inside open_
  std::vector<Run> ended_;
};

// Times in which a thread of the host unmapped memory. Until it has finished, KVM does not map the
// range again, and a vCPU that touches it faults in vain (Linux, kvm_mmu_notifier_*).
//
//   kvm_unmap_hva_range ── unmaps ── ? ── the thread sleeps, calls, unmaps again, or is in a guest
//
// No event marks the end. Unmapping has ended when the thread does something that it cannot do
// while unmapping, and nothing is claimed beyond kLongest. Unmapping alone proves nothing, but it
// explains why the same page fault came again.
class MemoryUnmaps {
 public:
  static constexpr std::size_t kMostOpen = 1024;
  static constexpr std::uint64_t kLongest = 10'000'000;
  // KVM_SET_USER_MEMORY_REGION and its second version (linux/kvm.h).
  static constexpr std::array<std::uint32_t, 2> kSetMemory = {0x4020ae46, 0x40a0ae49};

  // Takes every event of the host.
  void on(const Event& event, ThreadChanges changes);
  // Returns whether unmapping may have been in progress at some time from `begin` to `end`, which
  // are not later than the last event.
  [[nodiscard]] bool any(Timestamp begin, Timestamp end) const;

 private:
  struct Unmap {
    ThreadId thread{};
    Timestamp begin, end;
    [[nodiscard]] bool lasts_at(Timestamp at) const { return elapsed(begin, at) <= kLongest; }
  };
  void end(ThreadId thread, Timestamp at);
  void forget() {
    open_.clear();
    last_.reset();
  }
  std::vector<Unmap> open_;
  std::optional<Unmap> last_;  // the last unmapping that ended
};

// Finds the user space thread that served the page for which a thread slept (userfaultfd): it wakes
// the sleeper inside an ioctl such as UFFDIO_COPY. If KVM waits for the page in a worker
// (asynchronous page faults), there is one more step:
//
//   server ── UFFDIO_COPY, wakes ──> kworker ── wakes ──> vCPU
//
// Also finds the kernel thread that made a thread wait because it collapsed small pages into a huge
// one:
//
//   kvm_unmap_hva_range ── mm_collapse_huge_page_isolate ── wakes ── mm_collapse_huge_page
class PageServers {
 public:
  // The ioctl commands that answer a fault (linux/userfaultfd.h): COPY, ZEROPAGE, MOVE,
  // WRITEPROTECT, CONTINUE, POISON, WAKE.
  static constexpr std::array<std::uint32_t, 7> kAnswers = {
      0xc028aa03, 0xc020aa04, 0xc028aa05, 0xc018aa06, 0xc020aa07, 0xc020aa08, 0x8010aa02};

  // A part of a sleep in which the sleeper, or the worker that woke it, waited for `by`.
  struct Served {
    ThreadId by{};
    bool collapses = false;  // `by` collapsed pages; false: `by` answered
    Timestamp begin, end;
    // The fault for which `by` worked happened by this time: when the ioctl that answers it began
    // or, if earlier, the worker's sleep; for a collapse, when the sleep began.
    Timestamp since;
    EventRef proof;  // the wake-up by `by`
  };
  // Takes every HostEvent and IoctlEnter of the host, and events that changed a thread.
  void on(const Event& event, ThreadChanges changes);
  // Returns the server of the sleeper, if the last event was a wake-up that ended a sleep. The
  // caller must know whether the sleeper waited for a page.
  [[nodiscard]] const std::optional<Served>& served_by() const { return served_by_; }

 private:
  static constexpr std::size_t kMostThreads = 1u << 14;
  struct Thread {
    std::optional<Timestamp> serves;  // since when the thread is in an ioctl that answers a fault
    std::optional<Served> server;     // the server that ended the last sleep
    std::optional<Timestamp> unmaps, collapses;  // when the thread's unmapping, collapse began
  };
  void on_host(const Event& event, HostStep step);
  void on_wakeup(const ThreadChange& change);
  ThreadTable<Thread> threads_;
  std::optional<Served> served_by_;
};

}  // namespace trapline
