#include "merge/pass/no_exits.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "merge/model/kernel_events.h"

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
  const std::string counts = frequent_events(timeline);
  const std::string hint =
      counts.find(events::print.full_name) != std::string::npos &&
              counts.find("kvm:") == std::string::npos
          ? "; under emulation there are none, and trapline report counts guest functions and "
            "QEMU's "
            "events; trace-cmd record -P follows the main thread only"
          : "";
  return {
      fmt::format("{}: holds no VM exits, neither {} nor {}; it has {}{}; record with: trace-cmd "
                  "record -e kvm -e {} -e {} -e {}",
                  timeline.source(0).info().path, events::kvm_exit.name,
                  events::kvm_userspace_exit.name, counts, hint, events::sched_switch.full_name,
                  events::sched_waking.full_name, events::sys_enter_ioctl.full_name),
      ErrorKind::kRuntime};
}

Error no_entries(const Timeline& timeline) {
  return {fmt::format("{}: {} was not recorded: its exits have no end; record {} as well",
                      timeline.source(0).info().path, events::kvm_entry.name,
                      events::kvm_entry.full_name),
          ErrorKind::kRuntime};
}

Error no_durations(const Timeline& timeline) {
  return {fmt::format("{}: its exits have no durations; record {} or {}",
                      timeline.source(0).info().path, events::sys_enter_ioctl.full_name,
                      events::kvm_exit.full_name),
          ErrorKind::kUsage};
}

}  // namespace trapline
