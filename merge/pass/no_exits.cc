#include "merge/pass/no_exits.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace trapline {
namespace {

// The most frequent events, "sched:sched_switch (1234), …".
std::string frequent_events(const Timeline& timeline) {
  constexpr std::size_t kShown = 6;
  std::vector<std::pair<std::string, std::uint64_t>> all;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    for (auto& event : timeline.source(i).event_counts()) all.push_back(std::move(event));
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kShown); ++i) {
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", all[i].first, all[i].second);
  }
  if (all.size() > kShown) text += fmt::format(", and {} more kinds", all.size() - kShown);
  return text.empty() ? "no kernel events" : text;
}

}  // namespace

Error no_exits(const Timeline& timeline) {
  const std::string events = frequent_events(timeline);
  const std::string hint =
      events.find("ftrace:print") != std::string::npos && events.find("kvm:") == std::string::npos
          ? "; under emulation there are none, and trapline report counts guest functions and "
            "QEMU's "
            "events; trace-cmd record -P follows the main thread only"
          : "";
  return {
      fmt::format("{}: holds no VM exits, neither kvm_exit nor kvm_userspace_exit; it has {}{}; "
                  "record with: trace-cmd record -e kvm -e sched:sched_switch -e "
                  "sched:sched_waking -e syscalls:sys_enter_ioctl",
                  timeline.source(0).info().path, events, hint),
      ErrorKind::kRuntime};
}

Error no_entries(const Timeline& timeline) {
  return {fmt::format("{}: kvm_entry was not recorded: its exits have no end; record kvm:kvm_entry "
                      "as well",
                      timeline.source(0).info().path),
          ErrorKind::kRuntime};
}

Error no_durations(const Timeline& timeline) {
  return {fmt::format("{}: its exits have no durations; record syscalls:sys_enter_ioctl or "
                      "kvm:kvm_exit",
                      timeline.source(0).info().path),
          ErrorKind::kUsage};
}

}  // namespace trapline
