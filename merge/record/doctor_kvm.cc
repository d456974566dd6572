// Checks KVM and its events.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <tuple>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/model/kernel_events.h"
#include "merge/record/doctor.h"
#include "merge/record/ftrace_control.h"
#include "merge/source/kernel_events/formats.h"

namespace trapline::record {
namespace {

unsigned arch_of(Processor processor) {
  using enum RecordedBy::Arch;
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
  return kEveryArch;
}

bool has_event(const Host& host, const KernelEvent& event) {
  return std::ranges::any_of(
      events_of(host.tracefs, std::string(event.system)), [&](const std::string& name) {
        return matches(event.name, name) &&
               is_there(fmt::format("{}/events/{}/{}/enable", host.tracefs, event.system, name));
      });
}

// Returns whether the host's kernel should have the event. On an unknown processor, only events
// that exist on all architectures are expected.
bool is_expected(const KernelEvent& event, Processor processor) {
  return (event.recorded.arch & arch_of(processor)) != 0 &&
         (processor != Processor::kOther || event.recorded.arch == RecordedBy::kEveryArch);
}

}  // namespace

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
                        fmt::format("guests run, under a KVM that is not the kernel's own for this "
                                    "processor: it may write no {} and {}; exits to user space are "
                                    "recorded",
                                    events::kvm_exit.name, events::kvm_entry.name),
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
        {"kvm events", Level::kMissing, host.tracefs + "/events/kvm: not there",
         std::string(events::kvm_exit.recorded.without),
         module ? (amd ? "modprobe kvm_amd" : "modprobe kvm_intel") : "",
         module ? "as root" : "this kernel has no KVM; trapline record --no-kvm records the rest"}};
  }
  std::vector<Finding> findings;
  std::map<std::string_view, std::string> lacking;  // by what the report loses
  std::size_t there = 0;
  for (const KernelEvent& event : events::all()) {
    // On an unknown processor, arch_of() returns all architectures: each event that exists counts.
    const auto& [options, arch, without] = event.recorded;
    const bool by_option = (options & (RecordedBy::kKvm | RecordedBy::kIrq)) != 0;
    if (event.system != "kvm" || !by_option || (arch & arch_of(processor)) == 0) continue;
    if (has_event(host, event)) {
      ++there;
    } else if (is_expected(event, processor)) {
      std::string& names = lacking[without];
      names += (names.empty() ? "" : ", ") + std::string(event.name);
    }
  }
  findings.push_back({"kvm events", Level::kOk,
                      fmt::format("{} of the kinds that trapline records exist", there)});
  for (const auto& [cost, names] : lacking) {
    findings.push_back(
        {"kvm events",
         cost == events::kvm_exit.recorded.without ? Level::kMissing : Level::kLimited,
         "this kernel lacks " + names, std::string(cost), "",
         "another version or configuration of the kernel may have them "
         "(docs/formats/kvm-events.md)"});
  }
  const KernelEvent& ioctl = events::sys_enter_ioctl;
  if (has_event(host, ioctl)) {
    findings.push_back({std::string(ioctl.name), Level::kOk, "there"});
  } else {
    findings.push_back({std::string(ioctl.name), Level::kLimited, "this kernel lacks it",
                        std::string(ioctl.recorded.without), "",
                        "a kernel with CONFIG_FTRACE_SYSCALLS=y has it"});
  }
  return findings;
}

std::vector<Finding> check_option_events(const Host& host) {
  if (host.tracefs.empty() || !is_folder(host.tracefs + "/events")) return {};
  const Processor processor = processor_of(host);
  // Without KVM's module, its events are not checked here: check_events() reports the module.
  const bool kvm = is_folder(host.tracefs + "/events/kvm");
  std::vector<Finding> findings;
  for (const auto& [option, name, cost] :
       {std::tuple(RecordedBy::kStalls, "stalls", &events::sched_switch),
        std::tuple(RecordedBy::kPages, "faults", &events::mm_page_alloc)}) {
    std::string lacking;
    for (const KernelEvent& event : events::all()) {
      if ((event.recorded.options & option) == 0) continue;
      if (!is_expected(event, processor) || (!kvm && event.system.starts_with("kvm"))) continue;
      if (!has_event(host, event))
        lacking += (lacking.empty() ? "" : ", ") + std::string(event.full_name);
    }
    if (lacking.empty())
      findings.push_back(
          {name, Level::kOk, fmt::format("the events of trapline record --{} are there", name)});
    else
      findings.push_back({name, Level::kLimited, "this kernel lacks " + lacking,
                          std::string(cost->recorded.without), "",
                          "another version or configuration of the kernel may have them"});
  }
  return findings;
}

// Judges by the kernel's version: instances have the function_graph tracer since Linux 6.11. Only a
// new instance would show it directly, and a check does not make one.
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

// An event takes its fields, rounded up to four bytes, and the ring buffer's header.
std::uint64_t bytes_per_exit(const Host& host) {
  if (host.tracefs.empty()) return 0;
  kernel_events::FormatTexts texts;
  std::vector<std::uint16_t> types;
  for (const KernelEvent* event :
       {&events::kvm_exit, &events::kvm_mmio, &events::kvm_userspace_exit, &events::sys_enter_ioctl,
        &events::kvm_entry}) {
    auto text =
        read_text(fmt::format("{}/events/{}/{}/format", host.tracefs, event->system, event->name));
    const auto id = text ? kernel_events::format_id(*text) : std::nullopt;
    if (!id && types.empty()) return 0;
    if (!id) continue;
    types.push_back(*id);
    texts.formats.push_back({std::string(event->system), *std::move(text)});
  }
  const auto described = kernel_events::EventTexts("this kernel", texts).describe(types);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; described && i < types.size(); ++i)
    bytes += ((*described)[i].size + 3) / 4 * 4 + 4;
  return bytes;
}

}  // namespace trapline::record
