// Reads cpu.stat of the cgroups that recorded threads are in, and of the cgroups above: how often
// and how long a CPU quota kept the threads from running, and how long they ran. For cgroup v1 and
// v2.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "merge/record/threads.h"
#include "merge/session/session_json.h"

namespace trapline::record {

// The counts of a cgroup's cpu.stat. `times` is nr_throttled; `ns` is throttled_usec (v2) or
// throttled_time (v1), in ns; both are 0 if the cgroup's cpu controller is off. Only v2 has
// usage_usec. parse_cpu_stat() returns nullopt if the text has none of these counts.
struct CpuStat {
  std::uint64_t times = 0, ns = 0;
  std::optional<std::uint64_t> usage_usec;
};
[[nodiscard]] std::optional<CpuStat> parse_cpu_stat(std::string_view text);

// Returns the cgroup that can throttle a thread, from the text of /proc/TID/cgroup: "/machine/vm1",
// or "cpu:/machine/vm1" for cgroup v1. Returns an empty text for the root cgroup, a removed one, or
// one outside our cgroup namespace.
[[nodiscard]] std::string cpu_cgroup_of(std::string_view proc_cgroup);

// Guarantees: a cgroup that was read once stays in list(), with the last counts that could be read.
// At most kMost cgroups are kept.
class Cgroups {
 public:
  static constexpr std::size_t kMost = 1024;

  // Finds where cgroup v1's cpu hierarchy and cgroup v2 are mounted, from the text of
  // /proc/self/mountinfo.
  explicit Cgroups(std::string_view mountinfo);
  // Reads this process's /proc/self/mountinfo.
  Cgroups();

  // Looks up the cgroups of `threads`, and reads the counts of all cgroups again.
  void update(const std::map<pid_t, Thread>& threads);
  [[nodiscard]] std::vector<SessionCgroup> list() const;

 private:
  static constexpr std::size_t kMostThreads = 1024, kMostLevels = 16;
  void look_at(pid_t tid, const Thread& thread);
  [[nodiscard]] std::string folder_of(const std::string& cgroup) const;

  std::string v1_, v2_;  // mount points; empty: not mounted
  std::map<std::string, SessionCgroup> cgroups_;
  std::map<pid_t, std::string> of_;
};

}  // namespace trapline::record
