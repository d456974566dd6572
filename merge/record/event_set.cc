#include "merge/record/event_set.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <span>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/memory_waits.h"
#include "merge/analyze/page_faults.h"
#include "merge/model/ioctls.h"
#include "merge/model/kernel_events.h"

namespace trapline::record {
namespace {

// Returns the filter of sys_enter_ioctl. It always selects KVM_RUN, _IO(KVMIO, 0x80), which only a
// VMM calls. --stalls and --faults add the ioctls that answer userfaultfd or change a VM's memory;
// --faults also adds those that read the log of dirty pages, and --host-cpu all ioctls that have a
// name in a report.
std::string ioctl_filter(const EventChoice& choice) {
  std::string filter = "cmd == 0xae80";
  const auto add = [&filter](std::span<const std::uint32_t> commands) {
    for (const std::uint32_t command : commands) filter += fmt::format(" || cmd == {:#x}", command);
  };
  if (choice.host_cpu)
    for (const Ioctl& ioctl : kIoctls) add({&ioctl.command, 1});
  if (choice.faults) add(std::array{PageFaults::kGetDirtyLog, PageFaults::kClearDirtyLog});
  if (!choice.stalls && !choice.faults) return filter;
  add(PageServers::kAnswers);
  add(MemoryUnmaps::kSetMemory);
  return filter;
}

class Chooser {
 public:
  explicit Chooser(const std::string& tracefs) : tracefs_(tracefs) {}

  std::size_t add(std::string_view system_pattern, std::string_view name_pattern) {
    std::size_t found = 0;
    const bool is_name = system_pattern.find_first_of("*?/.") == system_pattern.npos;
    const std::vector<std::string> one{std::string(system_pattern)};
    for (const std::string& system : is_name ? one : systems()) {
      if (!matches(system_pattern, system) || system == "ftrace") continue;
      const std::vector<std::string> names = events_of(tracefs_, system, name_pattern);
      for (const std::string& name : names) chosen_.insert({system, name});
      found += names.size();
    }
    return found;
  }
  // Adds the events of an option of `record`, but with --no-kvm none of KVM's. Returns how many.
  std::size_t add(RecordedBy::Option option, const EventChoice& choice) {
    std::size_t found = 0;
    for (const KernelEvent& event : events::all()) {
      const bool chosen = choice.kvm || !event.system.starts_with("kvm");
      if ((event.recorded.options & option) != 0 && chosen) found += add(event.system, event.name);
    }
    return found;
  }
  std::size_t add(std::string_view pattern) {
    auto colon = pattern.find(':');
    if (colon == std::string_view::npos) colon = pattern.find('/');
    if (colon == std::string_view::npos) return add(pattern, "*");
    return add(pattern.substr(0, colon), pattern.substr(colon + 1));
  }
  [[nodiscard]] std::vector<EventName> chosen() const { return {chosen_.begin(), chosen_.end()}; }
  [[nodiscard]] std::string hint(std::string_view pattern) {
    const auto colon = pattern.find_first_of(":/");
    const std::string_view system = pattern.substr(0, colon);
    std::vector<std::string> names = systems();
    const bool known = std::ranges::find(names, system) != names.end();
    if (colon != std::string_view::npos && known) {
      names = events_of(tracefs_, std::string(system));
      pattern.remove_prefix(colon + 1);
    } else {
      pattern = system;
    }
    const std::vector<std::string_view> views(names.begin(), names.end());
    const std::string_view near = nearest(pattern, views);
    return near.empty() ? fmt::format("ls {}/events shows them", tracefs_)
                        : fmt::format("did you mean {}?", near);
  }

 private:
  [[nodiscard]] const std::vector<std::string>& systems() {
    if (systems_.empty()) systems_ = event_systems(tracefs_);
    return systems_;
  }
  std::string tracefs_;
  std::vector<std::string> systems_;
  std::set<EventName> chosen_;
};

bool chose_ioctl(const EventChoice& choice) {
  return std::any_of(choice.patterns.begin(), choice.patterns.end(), [](const auto& pattern) {
    const auto colon = std::string_view(pattern).find_first_of(":/");
    return matches(std::string_view(pattern).substr(0, colon), events::sys_enter_ioctl.system) &&
           (colon == std::string::npos ||
            matches(std::string_view(pattern).substr(colon + 1), events::sys_enter_ioctl.name));
  });
}

}  // namespace

Result<std::vector<EventName>> choose_events(const std::string& tracefs,
                                             const EventChoice& choice) {
  Chooser chooser(tracefs);
  if (::access((tracefs + "/events").c_str(), R_OK | X_OK) != 0 && errno == EACCES) {
    return fail("{}/events: not permitted; run as root", tracefs);
  }
  if (choice.kvm && chooser.add(RecordedBy::kKvm, choice) == 0) {
    return fail(
        "{}/events/kvm: not there; load the module: modprobe kvm_intel (or kvm_amd), or "
        "record without its events: --no-kvm",
        tracefs);
  }
  (void)chooser.add(RecordedBy::kAlways, choice);
  if (choice.stalls) (void)chooser.add(RecordedBy::kStalls, choice);
  if (choice.faults) (void)chooser.add(RecordedBy::kPages, choice);
  if (choice.host_cpu) (void)chooser.add(RecordedBy::kHostCpu, choice);
  if (choice.sched) (void)chooser.add(RecordedBy::kSched, choice);
  if (choice.irq) (void)chooser.add(RecordedBy::kIrq, choice);
  if (choice.block && chooser.add(RecordedBy::kDisk, choice) == 0)
    return fail("{}/events/block: this kernel has no events of disks", tracefs);
  if (choice.syscalls && chooser.add(RecordedBy::kSyscalls, choice) == 0)
    return fail("{}/events/raw_syscalls: this kernel has no system call events", tracefs);
  for (const std::string& pattern : choice.patterns) {
    if (chooser.add(pattern) == 0) {
      return fail(ErrorKind::kUsage, "--events {}: no such event; {}", pattern,
                  chooser.hint(pattern));
    }
  }
  return chooser.chosen();
}

// Parses lines "SYSTEM:NAME".
std::vector<EventName> enabled_events(std::string_view text) {
  std::vector<EventName> events;
  while (!text.empty()) {
    const auto line = take_line(text);
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    events.push_back({std::string(line.substr(0, colon)), std::string(line.substr(colon + 1))});
  }
  std::sort(events.begin(), events.end());
  return events;
}

Result<void> enable_events(const Instance& instance, const std::vector<EventName>& events,
                           const EventChoice& choice) {
  const FtraceControl& control = instance.control();
  for (const EventName& event : events) {
    // Does without tracefs_event_enable(), which takes names as case-insensitive patterns and lists
    // all systems for each.
    const std::string folder = fmt::format("events/{}/{}", event.system, event.name);
    if (event.name == events::sys_enter_ioctl.name && !chose_ioctl(choice)) {
      if (auto set = control.set(folder + "/filter", ioctl_filter(choice)); !set) return set;
    }
    if (auto set = control.set(folder + "/enable", "1"); !set) return set;
  }
  return {};
}

}  // namespace trapline::record
