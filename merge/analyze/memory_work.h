// When a thread that wanted memory had to reclaim or compact it first, or a vCPU waited for user
// space because its log of dirty pages was full.
//
//   mm_vmscan_*reclaim_begin ── reclaims, or waits in it ── mm_vmscan_*reclaim_end
//   kvm_dirty_ring_exit ── user space reads the ring ── kvm_entry
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "merge/model/host_event.h"
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

}  // namespace trapline
