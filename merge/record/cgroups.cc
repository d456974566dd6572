#include "merge/record/cgroups.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"

namespace trapline::record {
namespace {

constexpr std::string_view kV1 = "cpu:";

bool has_cpu(std::string_view controllers) {
  const auto names = split(controllers, ',');
  return std::find(names.begin(), names.end(), "cpu") != names.end();
}

}  // namespace

std::optional<CpuStat> parse_cpu_stat(std::string_view text) {
  std::optional<std::uint64_t> times, ns, usage;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const auto value = parse_number(line.substr(blank + 1));
    const std::string_view key = line.substr(0, blank);
    if (key == "usage_usec") usage = value;
    if (key == "nr_throttled") times = value;
    if (key == "throttled_time") ns = value;
    if (key == "throttled_usec" && value) ns = *value * 1000;
  }
  if (times && ns) return CpuStat{*times, *ns, usage};
  return usage ? std::optional(CpuStat{0, 0, usage}) : std::nullopt;
}

// Takes the cgroup of the v1 line that has the cpu controller, such as "4:cpu,cpuacct:/a". Without
// such a line, v2 has the controller: takes the cgroup of its line, "0::/a".
std::string cpu_cgroup_of(std::string_view proc_cgroup) {
  std::string v1, v2;
  while (!proc_cgroup.empty()) {
    const std::string_view line = take_line(proc_cgroup);
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (controllers.empty()) v2 = path;
    if (has_cpu(controllers)) v1 = std::string(kV1) + path;
  }
  const std::string& found = v1.empty() ? v2 : v1;
  if (found.ends_with('/')) return {};
  const bool outside = found.find("/..") != std::string::npos;  // outside this cgroup namespace
  return outside || found.ends_with(" (deleted)") ? std::string() : found;
}

// Finds where cgroup v1's cpu hierarchy and cgroup v2 are mounted, in lines such as "36 25 0:31 /
// /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct". Only mounts of a whole hierarchy
// count, not bind mounts of a part of it.
Cgroups::Cgroups(std::string_view mountinfo) {
  while (!mountinfo.empty()) {
    const auto words = split(take_line(mountinfo), ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 5 || words.end() - dash < 4 || words[3] != "/") continue;
    if (dash[1] == "cgroup2" && v2_.empty()) v2_ = words[4];
    if (dash[1] == "cgroup" && has_cpu(dash[3]) && v1_.empty()) v1_ = words[4];
  }
}

Cgroups::Cgroups() : Cgroups(read_text("/proc/self/mountinfo").value_or("")) {}

std::string Cgroups::folder_of(const std::string& cgroup) const {
  const bool v1 = cgroup.starts_with(kV1);
  const std::string& mount = v1 ? v1_ : v2_;
  return mount.empty() ? std::string() : mount + cgroup.substr(v1 ? kV1.size() : 0);
}

void Cgroups::look_at(pid_t tid, const Thread& thread) {
  const auto text = read_text(fmt::format("/proc/{}/task/{}/cgroup", thread.pid, tid));
  if (!text) return;
  std::string path = cpu_cgroup_of(*text);
  std::string& kept = of_[tid];
  // A thread that has ended is in the root cgroup: keep the cgroup that it was in before.
  if (path.empty() || path == kept) return;
  kept = path;
  for (std::size_t level = 0; level < kMostLevels && !path.empty(); ++level) {
    if (cgroups_.size() >= kMost || cgroups_.contains(path)) break;
    const auto counts = parse_cpu_stat(read_text(folder_of(path) + "/cpu.stat").value_or(""));
    if (counts) {
      cgroups_[path] = {path, {counts->times, counts->times}, {counts->ns, counts->ns}, {}};
      if (const auto usage = counts->usage_usec) cgroups_[path].usage_usec = {*usage, *usage};
    }
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    if (path == kV1) path.clear();
  }
}

void Cgroups::update(const std::map<pid_t, Thread>& threads) {
  const bool few = threads.size() <= kMostThreads;  // else only new threads are looked up
  for (const auto& [tid, thread] : threads)
    if (few || (of_.size() < kMostThreads && !of_.contains(tid))) look_at(tid, thread);
  for (auto& [path, cgroup] : cgroups_) {
    const auto counts = parse_cpu_stat(read_text(folder_of(path) + "/cpu.stat").value_or(""));
    if (!counts || counts->times < cgroup.throttled[0] || counts->ns < cgroup.throttled_ns[0])
      continue;  // the cgroup was removed, and perhaps made again
    cgroup.throttled[1] = counts->times;
    cgroup.throttled_ns[1] = counts->ns;
    if (cgroup.usage_usec) (*cgroup.usage_usec)[1] = counts->usage_usec.value_or(0);
  }
}

std::vector<SessionCgroup> Cgroups::list() const {
  std::map<std::string, SessionCgroup> cgroups = cgroups_;
  for (const auto& [tid, path] : of_) {
    if (const auto found = cgroups.find(path); found != cgroups.end())
      found->second.threads.push_back(tid);
  }
  std::vector<SessionCgroup> list;
  for (auto& [path, cgroup] : cgroups) list.push_back(std::move(cgroup));
  return list;
}

}  // namespace trapline::record
