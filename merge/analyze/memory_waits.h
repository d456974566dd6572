// What kept a thread that touched memory waiting: reclaim, pages that were taken away, pages that
// another thread brings.
//
// When a thread that wanted memory had to reclaim or compact it first, or a vCPU waited for user
// space because its log of dirty pages was full.
//
//   mm_vmscan_*reclaim_begin ── reclaims, or waits in it ── mm_vmscan_*reclaim_end
//   kvm_dirty_ring_exit ── user space reads the ring ── kvm_entry
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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
  kCollapse,  // of small pages into a huge one, by another thread
  kUnmap,     // by another thread, which makes a page fault vain: KVM's MMU notifier
  kDirtyLog,
};

// Of one thread. Work whose end was not recorded is none: nothing tells how long it took. Of one in
// another the outer one counts.
class MemoryWorks {
 public:
  static constexpr std::size_t kMost = 1u << 15;  // further ones are not told
  struct Run {
    MemoryWork work = MemoryWork::kNone;
    Timestamp begin, end;
  };

  [[nodiscard]] static bool looks_at(HostStep step) {
    return (step >= HostStep::kReclaimBegin && step <= HostStep::kCompactionEnd) ||
           step == HostStep::kDirtyRingFull;
  }
  // An event of the thread, of those that it looks at.
  void on(HostStep step, Timestamp at);
  // The thread enters the guest, where no such work goes on.
  void on_entry(Timestamp at);
  // Events were lost.
  void forget_open() { open_.reset(); }
  // Those that ended, but for the forgotten, in order; none overlaps another.
  [[nodiscard]] std::span<const Run> ended() const { return ended_; }
  void forget_until(Timestamp at) {
    std::erase_if(ended_, [at](const Run& run) { return run.end <= at; });
  }

 private:
  std::optional<Run> open_;
  std::size_t inner_ = 0;  // open in it
  std::vector<Run> ended_;
};

// When some thread of the host took memory out of page tables: until that is done KVM maps none of
// the range again, and a vCPU that touches it faults in vain (Linux, kvm_mmu_notifier_*).
//
//   kvm_unmap_hva_range ── unmaps ── ? ── the thread sleeps, calls, unmaps again, or is in a guest
//
// No event tells the end: it is at the latest where the thread does what it cannot do in it, and
// nothing is claimed beyond kLongest. Alone this proves nothing, but it tells why the same page
// fault came again.
class MemoryUnmaps {
 public:
  static constexpr std::size_t kMostOpen = 1024;
  static constexpr std::uint64_t kLongest = 10'000'000;
  // KVM_SET_USER_MEMORY_REGION, and its second version (linux/kvm.h).
  static constexpr std::array<std::uint32_t, 2> kSetMemory = {0x4020ae46, 0x40a0ae49};

  // Every event of the host.
  void on(const Event& event, ThreadChanges changes);
  // Whether one can have lasted at some time of that, which is no later than the last event.
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
  std::optional<Unmap> last_;  // of those that ended, the last
};

// Which thread of user space served the page for which a thread slept (userfaultfd): it wakes the
// sleeper inside its ioctl UFFDIO_COPY or the like. A page that KVM waits for in a worker
// (asynchronous page faults) takes one step more:
//
//   server ── UFFDIO_COPY, wakes ──> kworker ── wakes ──> vCPU
//
// And which thread of the kernel made it wait, because it collapsed small pages into a huge one:
//
//   kvm_unmap_hva_range ── mm_collapse_huge_page_isolate ── wakes ── mm_collapse_huge_page
class PageServers {
 public:
  // The commands of such an ioctl (linux/userfaultfd.h): COPY, ZEROPAGE, MOVE, WRITEPROTECT,
  // CONTINUE, POISON, WAKE.
  static constexpr std::array<std::uint32_t, 7> kAnswers = {
      0xc028aa03, 0xc020aa04, 0xc028aa05, 0xc018aa06, 0xc020aa07, 0xc020aa08, 0x8010aa02};

  // A part of a sleep, in which the sleeper, or the worker that woke it, waited for `by`.
  struct Served {
    ThreadId by{};
    bool collapses = false;  // pages; else it answered
    Timestamp begin, end;
    // No earlier than the fault that is answered: its call; the worker's sleep.
    Timestamp since;
  };
  [[nodiscard]] static bool looks_at(const Payload& payload) {
    return is_any_of<HostEvent, IoctlEnter, Lost>(payload);
  }
  // Every event of the host that it looks at, or that changed a thread.
  void on(const Event& event, ThreadChanges changes);
  // Who served the sleeper that the last of them, a wake-up, ended the sleep of: where that waited
  // for a page, which is the caller's to know.
  [[nodiscard]] const std::optional<Served>& served_by() const { return served_by_; }

 private:
  static constexpr std::size_t kMostThreads = 1u << 14;
  struct Thread {
    std::optional<Timestamp> serves;  // since when it is in an ioctl that answers a page fault
    Served server;                    // that ended its last sleep; 0: none did
    std::optional<Timestamp> unmaps, collapses;  // since when
  };
  void on_host(const Event& event, HostStep step);
  void on_wakeup(const ThreadChange& change);
  ThreadTable<Thread> threads_;
  std::optional<Served> served_by_;
};

}  // namespace trapline
