// KVM and its events.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/record/doctor.h"
#include "merge/record/event_set.h"
#include "merge/record/ftrace_control.h"

namespace trapline::record {
namespace {

enum Arch : unsigned { kX86 = 1, kSvmOnly = 2, kArm = 4, kAll = kX86 | kSvmOnly | kArm };

constexpr const char* kNoExits = "no VM exit is recorded: trapline report has nothing to divide";
constexpr const char* kNoUser = "the time in QEMU cannot be told from the kernel's";
constexpr const char* kNoDetail =
    "exits of this kind have no detail and no device (--by detail, --by device)";
constexpr const char* kNoIrq = "interrupts are not followed into the guest over this path";
constexpr const char* kNoHalt = "halts are not divided into polling and sleeping (--halt)";
constexpr const char* kNoTsc = "a guest's clock cannot be aligned by its TSC (trapline sync)";
constexpr const char* kNoClockLines =
    "the timeline does not show when a guest's clock was set anew";
constexpr const char* kNoReload = "without sys_enter_ioctl, the time in QEMU ends at kvm_entry";
constexpr const char* kNoNested = "exits of a guest's own guests are not marked";
constexpr const char* kNoWhy = "the timeline has no line that explains such an exit";

struct EventRow {
  const char* pattern;
  unsigned arch;
  const char* cost;
};
// One row for each kvm event that `trapline record` asks for.
constexpr EventRow kEventRows[] = {
    {"kvm_exit", kAll, kNoExits},
    {"kvm_entry", kAll, kNoExits},
    {"kvm_userspace_exit", kAll, kNoUser},
    {"kvm_pio", kX86, kNoDetail},
    {"kvm_mmio", kAll, kNoDetail},
    {"kvm_fast_mmio", kX86, kNoDetail},
    {"kvm_msr", kX86, kNoDetail},
    {"kvm_cpuid", kX86, kNoDetail},
    {"kvm_cr", kX86, kNoDetail},
    {"kvm_hypercall", kX86, kNoDetail},
    {"kvm_hv_hypercall", kX86, kNoDetail},
    {"kvm_xen_hypercall", kX86, kNoDetail},
    {"kvm_page_fault", kX86, kNoDetail},
    {"kvm_inj_virq", kX86, kNoIrq},
    {"kvm_inj_exception", kX86, kNoWhy},
    {"kvm_apic_ipi", kX86, kNoIrq},
    {"kvm_apic_accept_irq", kX86, kNoIrq},
    {"kvm_apicv_accept_irq", kX86, kNoIrq},
    {"kvm_set_irq", kX86 | kArm, kNoIrq},
    {"kvm_msi_set_irq", kX86, kNoIrq},
    {"kvm_ioapic_set_irq", kX86, kNoIrq},
    {"kvm_pic_set_irq", kX86, kNoIrq},
    {"kvm_ack_irq", kX86, kNoIrq},
    {"kvm_eoi", kX86, kNoIrq},
    {"kvm_pv_eoi", kX86, kNoIrq},
    {"kvm_vcpu_wakeup", kAll, kNoHalt},
    {"kvm_halt_poll_ns", kAll, kNoHalt},
    {"kvm_async_pf_*", kX86, kNoWhy},
    {"kvm_write_tsc_offset", kX86, kNoTsc},
    {"kvm_track_tsc", kX86, kNoClockLines},
    {"kvm_update_master_clock", kX86, kNoClockLines},
    {"kvm_pvclock_update", kX86, kNoClockLines},
    {"kvm_nested_vm*", kX86, kNoNested},
    {"kvm_smm_transition", kX86, kNoWhy},
    {"kvm_ple_window_update", kX86, kNoWhy},
    {"kvm_avic_*", kSvmOnly, kNoIrq},
    {"kvm_vmgexit_*", kSvmOnly, kNoWhy},
    {"kvm_guest_fault", kArm, kNoDetail},
    {"kvm_access_fault", kArm, kNoWhy},
    {"kvm_irq_line", kArm, kNoIrq},
    {"kvm_get_timer_map", kArm, kNoWhy},
    {"kvm_timer_update_irq", kArm, kNoIrq},
    {"kvm_timer_restore_state", kArm, kNoReload},
    {"kvm_wfx_arm64", kArm, kNoDetail},
    {"kvm_hvc_arm64", kArm, kNoDetail},
    {"kvm_sys_access", kArm, kNoDetail},
    {"vgic_update_irq_pending", kArm, kNoIrq},
};

unsigned arch_of(Processor processor) {
  switch (processor) {
    case Processor::kVmx:
    case Processor::kX86WithoutKvm:
      return kX86;
    case Processor::kSvm:
      return kX86 | kSvmOnly;
    case Processor::kArm64:
      return kArm;
    case Processor::kOther:
      break;
  }
  return kAll;
}

bool has_event(const Host& host, const std::string& system, std::string_view pattern) {
  return std::ranges::any_of(events_of(host.tracefs, system), [&](const std::string& name) {
    return matches(pattern, name) &&
           is_there(fmt::format("{}/events/{}/{}/enable", host.tracefs, system, name));
  });
}

// The bytes of an event: its last field's end, rounded up, and the ring buffer's header.
std::uint64_t event_bytes(const Host& host, std::string_view event) {
  const std::string format =
      read_text(fmt::format("{}/events/{}/format", host.tracefs, event)).value_or("");
  std::uint64_t end = 0;
  for (std::size_t at = format.find("offset:"); at != std::string::npos;
       at = format.find("offset:", at + 1)) {
    const auto value = [&](std::size_t from) {
      return parse_number(format.substr(from, format.find(';', from) - from));
    };
    const std::size_t size = format.find("size:", at);
    if (size == std::string::npos) break;
    end = std::max(end, value(at + 7).value_or(0) + value(size + 5).value_or(0));
  }
  return end == 0 ? 0 : (end + 3) / 4 * 4 + 4;
}

}  // namespace

std::vector<std::string> explained_kvm_events() {
  std::vector<std::string> patterns;
  for (const EventRow& row : kEventRows) patterns.emplace_back(row.pattern);
  return patterns;
}

std::vector<Finding> check_kvm(const Host& host) {
  const Processor processor = processor_of(host);
  constexpr const char* kOnlyTcg =
      "no guest runs under KVM here, so there are no VM exits; QEMU under TCG, its events and the "
      "guest's functions can be recorded (trapline record --no-kvm)";
  const std::string device = host.root + "/dev/kvm";
  const int cause = host.open_error(device, O_RDWR);
  std::vector<Finding> findings;
  if (processor == Processor::kX86WithoutKvm && cause == 0) {
    findings.push_back({"processor", Level::kLimited, "x86 without VMX and without SVM",
                        "guests run, under a KVM that is not the kernel's own for this processor: "
                        "it may write no kvm_exit and kvm_entry; exits to user space are recorded",
                        "",
                        "without them the report has counts and QEMU's share, not the guest's"});
  } else if (processor == Processor::kX86WithoutKvm) {
    findings.push_back({"processor", Level::kMissing, "x86 without VMX and without SVM", kOnlyTcg,
                        "",
                        "enable virtualization in the firmware; in a virtual machine, nested "
                        "virtualization on its host; or use the KVM host in a box "
                        "(docs/kvm-box.md)"});
  } else {
    constexpr std::string_view kNames[] = {"not x86 and not arm64: only the common events are read",
                                           "x86 with VMX", "x86 with SVM", "arm64"};
    findings.push_back(
        {"processor", Level::kOk, std::string(kNames[static_cast<std::size_t>(processor)])});
  }
  if (cause == 0) {
    findings.push_back({"/dev/kvm", Level::kOk, "can be opened"});
  } else if (cause == ENOENT || cause == ENODEV || cause == ENXIO) {
    Finding missing{"/dev/kvm", Level::kMissing, "not there", kOnlyTcg};
    if (processor == Processor::kVmx) missing.command = "modprobe kvm_intel";
    if (processor == Processor::kSvm) missing.command = "modprobe kvm_amd";
    if (missing.command.empty()) missing.advice = "this kernel or this processor has no KVM";
    findings.push_back(std::move(missing));
  } else {
    findings.push_back({"/dev/kvm", Level::kLimited, std::strerror(cause),
                        "you cannot start a guest under KVM; those of others can be recorded",
                        "sudo usermod -aG kvm \"$USER\"", "then log in again"});
  }
  return findings;
}

std::vector<Finding> check_events(const Host& host) {
  if (host.tracefs.empty()) return {};
  const Processor processor = processor_of(host);
  if (const int cause = host.open_error(host.tracefs + "/events", O_RDONLY); cause == EACCES) {
    return {{"kvm events", Level::kMissing, host.tracefs + "/events: " + std::strerror(cause),
             "which of them this kernel has cannot be seen", "sudo trapline doctor"}};
  }
  if (!is_folder(host.tracefs + "/events/kvm")) {
    const bool amd = processor == Processor::kSvm;
    const bool module = amd || processor == Processor::kVmx;
    return {
        {"kvm events", Level::kMissing, host.tracefs + "/events/kvm: not there", kNoExits,
         module ? (amd ? "modprobe kvm_amd" : "modprobe kvm_intel") : "",
         module ? "as root" : "this kernel has no KVM; trapline record --no-kvm records the rest"}};
  }
  std::vector<Finding> findings;
  std::map<std::string_view, std::string> lacking;  // by cost
  std::size_t there = 0;
  for (const EventRow& row : kEventRows) {
    // Where the processor is not known, all architectures' events are looked for, and only those
    // that every architecture has are missed.
    const unsigned arch = arch_of(processor);
    if ((row.arch & arch) == 0) continue;
    if (has_event(host, "kvm", row.pattern)) {
      ++there;
    } else if (processor != Processor::kOther || row.arch == kAll) {
      std::string& names = lacking[row.cost];
      names += (names.empty() ? "" : ", ") + std::string(row.pattern);
    }
  }
  findings.push_back({"kvm events", Level::kOk,
                      fmt::format("{} of the kinds that trapline records exist", there)});
  for (const auto& [cost, names] : lacking) {
    findings.push_back({"kvm events", cost == kNoExits ? Level::kMissing : Level::kLimited,
                        "this kernel lacks " + names, std::string(cost), "",
                        "another version or configuration of the kernel may have them "
                        "(docs/formats/kvm-events.md)"});
  }
  if (has_event(host, "syscalls", "sys_enter_ioctl")) {
    findings.push_back({"sys_enter_ioctl", Level::kOk, "there"});
  } else {
    findings.push_back({"sys_enter_ioctl", Level::kLimited, "this kernel lacks it",
                        "the time in QEMU ends at a later event, and holds some of the kernel's",
                        "", "a kernel with CONFIG_FTRACE_SYSCALLS=y has it"});
  }
  return findings;
}

std::vector<Finding> check_stall_events(const Host& host) {
  if (host.tracefs.empty() || !is_folder(host.tracefs + "/events")) return {};
  std::vector<std::string> names = {"sched:sched_switch", "sched:sched_waking",
                                    "sched:sched_wakeup", "sched:sched_migrate_task"};
  // Without its module, check_events() says so; only x86 has kvmmmu.
  const Processor processor = processor_of(host);
  const bool x86 = processor == Processor::kVmx || processor == Processor::kSvm;
  const bool kvm = is_folder(host.tracefs + "/events/kvm");
  for (const std::string_view event : stall_events()) {
    if (event.starts_with("kvm") && (!kvm || (!x86 && event.starts_with("kvmmmu:")))) continue;
    names.emplace_back(event);
  }
  std::string lacking;
  for (const std::string& name : names) {
    const std::size_t colon = name.find(':');
    if (!has_event(host, name.substr(0, colon), name.substr(colon + 1)))
      lacking += (lacking.empty() ? "" : ", ") + name;
  }
  if (lacking.empty()) {
    return {{"stalls", Level::kOk, "the events of trapline record --stalls are there"}};
  }
  return {{"stalls", Level::kLimited, "this kernel lacks " + lacking,
           "trapline stalls calls more causes unknown", "",
           "another version or configuration of the kernel may have them"}};
}

// Only an instance would tell whether it has the tracer; since 6.11 all have it.
std::vector<Finding> check_kernel_functions(const Host& host) {
  if (host.tracefs.empty()) return {};
  const auto tracers = read_text(host.tracefs + "/available_tracers");
  if (!tracers) return {};
  constexpr const char* kCheck = "kernel functions";
  constexpr const char* kCost = "trapline record --kernel-functions is refused";
  if (tracers->find("function_graph") == std::string::npos) {
    return {{kCheck, Level::kLimited, "this kernel lacks the function_graph tracer", kCost, "",
             "a kernel with CONFIG_FUNCTION_GRAPH_TRACER=y has it"}};
  }
  const std::string release =
      std::string(trimmed(read_text(host.root + "/proc/sys/kernel/osrelease").value_or("")));
  unsigned major = 0, minor = 0;
  if (std::sscanf(release.c_str(), "%u.%u", &major, &minor) == 2 &&
      (major < 6 || (major == 6 && minor < 11))) {
    return {{kCheck, Level::kLimited,
             fmt::format("Linux {} has function_graph outside of instances only", release), kCost,
             "", "Linux 6.11 and later has it"}};
  }
  return {{kCheck, Level::kOk, "functions of KVM's modules can be recorded"}};
}

std::uint64_t bytes_per_exit(const Host& host) {
  if (host.tracefs.empty() || event_bytes(host, "kvm/kvm_exit") == 0) return 0;
  std::uint64_t bytes = 0;
  for (const char* event : {"kvm/kvm_exit", "kvm/kvm_mmio", "kvm/kvm_userspace_exit",
                            "syscalls/sys_enter_ioctl", "kvm/kvm_entry"}) {
    bytes += event_bytes(host, event);
  }
  return bytes;
}

}  // namespace trapline::record
