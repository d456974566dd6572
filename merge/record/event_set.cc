#include "merge/record/event_set.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/memory_waits.h"

namespace trapline::record {
namespace {

// What the report uses, and what explains an exit. Left out: kvm_emulate_insn and kvm_fpu (two
// events in each emulated exit that say nothing new), the MMU notifier's, Hyper-V's timers.
constexpr std::array kKvmEvents{
    "kvm_exit", "kvm_entry", "kvm_userspace_exit", "kvm_pio", "kvm_mmio", "kvm_fast_mmio",
    "kvm_msr", "kvm_cpuid", "kvm_cr", "kvm_hypercall", "kvm_hv_hypercall", "kvm_xen_hypercall",
    "kvm_page_fault", "kvm_inj_virq", "kvm_inj_exception", "kvm_apic_ipi", "kvm_apic_accept_irq",
    "kvm_apicv_accept_irq", "kvm_set_irq", "kvm_msi_set_irq", "kvm_ioapic_set_irq",
    "kvm_pic_set_irq", "kvm_ack_irq", "kvm_eoi", "kvm_pv_eoi", "kvm_vcpu_wakeup",
    "kvm_halt_poll_ns", "kvm_async_pf_*", "kvm_write_tsc_offset", "kvm_track_tsc",
    "kvm_update_master_clock", "kvm_pvclock_update", "kvm_nested_vm*", "kvm_smm_transition",
    "kvm_ple_window_update", "kvm_avic_*", "kvm_vmgexit_*",
    // arm64
    "kvm_guest_fault", "kvm_access_fault", "kvm_irq_line", "kvm_get_timer_map",
    "kvm_timer_update_irq", "kvm_timer_restore_state", "kvm_wfx_arm64", "kvm_hvc_arm64",
    "kvm_sys_access", "vgic_update_irq_pending"};
constexpr std::array kSchedEvents{"sched_switch", "sched_waking", "sched_wakeup",
                                  "sched_wakeup_new", "sched_migrate_task"};
// The way of a read or write from its bio to the disk and back.
constexpr std::array kBlockEvents{"block_bio_queue", "block_rq_issue", "block_rq_complete"};
// Who woke a vCPU: timers, devices, the disk; who served a page: sys_enter_ioctl; when memory had
// to be found for it, was unmapped or collapsed, or its writes were logged.
constexpr std::array kStallEvents{"timer:hrtimer_expire_entry",
                                  "timer:hrtimer_expire_exit",
                                  "irq:irq_handler_entry",
                                  "irq:irq_handler_exit",
                                  "block:block_rq_complete",
                                  "vmscan:mm_vmscan_direct_reclaim_begin",
                                  "vmscan:mm_vmscan_direct_reclaim_end",
                                  "vmscan:mm_vmscan_memcg_reclaim_begin",
                                  "vmscan:mm_vmscan_memcg_reclaim_end",
                                  "compaction:mm_compaction_begin",
                                  "compaction:mm_compaction_end",
                                  "huge_memory:mm_collapse_huge_page_isolate",
                                  "huge_memory:mm_collapse_huge_page",
                                  "kvm:kvm_unmap_hva_range",
                                  "kvm:kvm_dirty_ring_exit",
                                  "kvmmmu:fast_page_fault"};
constexpr std::array kAlways{"syscalls:sys_enter_ioctl", "task:task_newtask", "task:task_rename"};

// _IO(KVMIO, 0x80): nobody but a virtual machine monitor makes it. Stalls need those, too, that
// wake who waits for a page, and those that change a VM's memory.
std::string ioctl_filter(bool stalls) {
  std::string filter = "cmd == 0xae80";
  if (!stalls) return filter;
  for (const std::uint32_t command : PageServers::kAnswers)
    filter += fmt::format(" || cmd == {:#x}", command);
  for (const std::uint32_t command : MemoryUnmaps::kSetMemory)
    filter += fmt::format(" || cmd == {:#x}", command);
  return filter;
}

class Chooser {
 public:
  explicit Chooser(const std::string& tracefs) : tracefs_(tracefs), events_(tracefs + "/events") {}

  std::size_t add(std::string_view system_pattern, std::string_view name_pattern) {
    std::size_t found = 0;
    if (systems_.empty()) systems_ = event_systems(tracefs_);
    for (const std::string& system : systems_) {
      if (!matches(system_pattern, system) || system == "ftrace") continue;
      for (const std::string& name : events_of(tracefs_, system)) {
        if (!matches(name_pattern, name)) continue;
        // An event without an enable file cannot be recorded by this way.
        if (::access((events_ + "/" + system + "/" + name + "/enable").c_str(), F_OK) != 0)
          continue;
        chosen_.insert({system, name});
        ++found;
      }
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
  [[nodiscard]] std::string hint(std::string_view pattern) const {
    const auto colon = pattern.find_first_of(":/");
    const std::string_view system = pattern.substr(0, colon);
    std::vector<std::string> names = systems_;
    const bool known = std::ranges::find(systems_, system) != systems_.end();
    if (colon != std::string_view::npos && known) {
      names = events_of(tracefs_, std::string(system));
      pattern.remove_prefix(colon + 1);
    } else {
      pattern = system;
    }
    const std::vector<std::string_view> views(names.begin(), names.end());
    const std::string_view near = nearest(pattern, views);
    return near.empty() ? fmt::format("ls {} shows them", events_)
                        : fmt::format("did you mean {}?", near);
  }

 private:
  std::string tracefs_, events_;
  std::vector<std::string> systems_;
  std::set<EventName> chosen_;
};

bool chose_ioctl(const EventChoice& choice) {
  return std::any_of(choice.patterns.begin(), choice.patterns.end(), [](const auto& pattern) {
    const auto colon = std::string_view(pattern).find_first_of(":/");
    return matches(std::string_view(pattern).substr(0, colon), "syscalls") &&
           (colon == std::string::npos ||
            matches(std::string_view(pattern).substr(colon + 1), "sys_enter_ioctl"));
  });
}

}  // namespace

Result<std::vector<EventName>> choose_events(const std::string& tracefs,
                                             const EventChoice& choice) {
  Chooser chooser(tracefs);
  if (::access((tracefs + "/events").c_str(), R_OK | X_OK) != 0 && errno == EACCES) {
    return fail("{}/events: not permitted; run as root", tracefs);
  }
  if (choice.kvm) {
    std::size_t found = 0;
    for (const char* name : kKvmEvents) found += chooser.add("kvm", name);
    if (found == 0) {
      return fail(
          "{}/events/kvm: not there; load the module: modprobe kvm_intel (or kvm_amd), or "
          "record without its events: --no-kvm",
          tracefs);
    }
  }
  for (const char* event : kAlways) (void)chooser.add(event);
  if (choice.stalls) {
    for (const std::string_view event : kStallEvents) {
      if (choice.kvm || !event.starts_with("kvm")) (void)chooser.add(event);
    }
  }
  if (choice.sched || choice.stalls) {
    for (const char* name : kSchedEvents) (void)chooser.add("sched", name);
  }
  if (choice.irq) {
    (void)chooser.add("irq", "*");
    (void)chooser.add("irq_vectors", "*");
  }
  if (choice.block) {
    std::size_t found = 0;
    for (const char* name : kBlockEvents) found += chooser.add("block", name);
    if (found == 0) return fail("{}/events/block: this kernel has no events of disks", tracefs);
  }
  if (choice.syscalls && chooser.add("raw_syscalls", "*") == 0) {
    return fail("{}/events/raw_syscalls: this kernel has no system call events", tracefs);
  }
  for (const std::string& pattern : choice.patterns) {
    if (chooser.add(pattern) == 0) {
      return fail(ErrorKind::kUsage, "--events {}: no such event; {}", pattern,
                  chooser.hint(pattern));
    }
  }
  return chooser.chosen();
}

std::span<const char* const> stall_events() { return kStallEvents; }

// Lines "SYSTEM:NAME".
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
    if (event.name == "sys_enter_ioctl" && !chose_ioctl(choice)) {
      auto set = control.filter(event.system, event.name, ioctl_filter(choice.stalls));
      if (!set) return set;
    }
    if (auto set = control.enable(event.system, event.name); !set) return set;
  }
  return {};
}

}  // namespace trapline::record
