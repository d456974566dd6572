// How long the CPU quotas of cgroups throttled their threads while they were recorded: cpu.stat
// before and after, of session.json. A time in which a thread was not allowed to run is a quota's
// only as far as those counts cover it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "merge/model/event.h"

namespace trapline {

struct CpuQuota {
  std::string cgroup;                 // "/machine/vm1"; of cgroup v1 "cpu:/machine/vm1"
  std::uint64_t throttled = 0;        // times
  std::uint64_t throttled_ns = 0;     // together, on all CPUs
  std::vector<std::int32_t> threads;  // tids in it, not in those below it
};

class CpuQuotas {
 public:
  CpuQuotas() = default;
  explicit CpuQuotas(std::vector<CpuQuota> quotas);

  // Takes `ns` of the throttled time that is left for the thread's cgroup and those above it. False
  // where less is left, and nothing taken.
  [[nodiscard]] bool take(ThreadId thread, std::uint64_t ns);
  [[nodiscard]] bool empty() const { return quotas_.empty(); }
  // Those that throttled the thread's cgroup, or one above it.
  [[nodiscard]] std::vector<const CpuQuota*> of(ThreadId thread) const;

 private:
  static constexpr std::size_t kMostLevels = 64;
  std::vector<CpuQuota> quotas_;     // as they were given
  std::vector<std::uint64_t> left_;  // of each one's throttled time
  std::unordered_map<ThreadId, std::vector<std::size_t>> of_;
};

}  // namespace trapline
