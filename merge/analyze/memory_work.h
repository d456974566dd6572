// When a thread that wanted memory had to reclaim or compact it first.
//
//   mm_vmscan_*reclaim_begin ── reclaims, or waits in it ── mm_vmscan_*reclaim_end
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "merge/model/host_event.h"
#include "merge/model/timestamp.h"

namespace trapline {

enum class MemoryWork : std::uint8_t { kNone, kReclaim, kCompaction };

// Of one thread. Work whose end was not recorded is none: nothing tells how long it took. Of one in
// another the outer one counts.
class MemoryWorks {
 public:
  static constexpr std::size_t kMost = 1u << 15;  // further ones are not told
  struct Run {
    MemoryWork work = MemoryWork::kNone;
    Timestamp begin, end;
  };

  [[nodiscard]] static bool looks_at(HostStep step) { return step >= HostStep::kReclaimBegin; }
  // An event of the thread, of those that it looks at.
  void on(HostStep step, Timestamp at);
  // Events were lost, or the thread is where no such work goes on.
  void forget_open() { open_.reset(); }
  // Those that ended since the last clear(), in order; none overlaps another.
  [[nodiscard]] std::span<const Run> ended() const { return ended_; }
  void clear() { ended_.clear(); }

 private:
  std::optional<Run> open_;
  std::size_t inner_ = 0;  // open in it
  std::vector<Run> ended_;
};

}  // namespace trapline
