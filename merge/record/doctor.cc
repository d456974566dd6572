#include "merge/record/doctor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <tuple>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/size.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/unique_fd.h"
#include "backend_ftrace/base/worker.h"
#include "backend_ftrace/clock.h"
#include "merge/model/kernel_events.h"
#include "merge/record/ftrace_control.h"
#include "merge/record/instance.h"
#include "merge/source/kernel_events/formats.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) { return read_text(path).value_or(""); }
std::string trimmed_text(const std::string& path) { return std::string(trimmed(text_of(path))); }

// Returns whether the first line of /proc/cpuinfo that begins with `key` contains the word.
bool cpu_says(const std::string& cpuinfo, std::string_view key, std::string_view word) {
  const std::string line = fmt::format(" {} ", kernel_events::format_line(cpuinfo, key));
  return line.find(fmt::format(" {} ", word)) != std::string::npos;
}

// Returns the gap, or, if there is none, that the same check is ok.
Finding ok_or(bool ok, std::string found, Finding gap) {
  return ok ? Finding{std::move(gap.check), Level::kOk, std::move(found)} : gap;
}

struct NeededFile {
  const char* name;
  int flags;
  const char* cost;
  Level level;
};
// The files of ftrace's top level that check_tracefs() tries to open: an instance's files have the
// same permissions. Opening and closing these files changes nothing.
constexpr NeededFile kNeededFiles[] = {
    {"instances", O_RDONLY | O_DIRECTORY, "no instance can be made: nothing is recorded",
     Level::kMissing},
    {"trace_marker", O_WRONLY, "QEMU's events and sync records cannot be recorded",
     Level::kMissing},
    {"tracing_on", O_WRONLY, "the recording cannot be started", Level::kMissing},
    {"trace_clock", O_WRONLY, "the recording's clock cannot be chosen", Level::kMissing},
    {"buffer_size_kb", O_WRONLY, "the buffer keeps its size; events may be lost", Level::kMissing},
    {"events/header_page", O_RDONLY, "trace.dat cannot be written", Level::kMissing},
    {"per_cpu/cpu0/trace_pipe_raw", O_RDONLY | O_NONBLOCK, "no event can be read", Level::kMissing},
    {"set_event_pid", O_RDONLY, "--pid cannot be used", Level::kLimited},
    {"saved_cmdlines", O_RDONLY, "threads outside of virtual machines may have no name",
     Level::kLimited},
    {"printk_formats", O_RDONLY, "texts of kernel messages in the recording are addresses",
     Level::kLimited},
};

Finding refused(const Host& host, const NeededFile& file, int cause) {
  const std::string path = host.tracefs + "/" + file.name;
  Finding finding{"tracefs files", file.level, fmt::format("{}: {}", path, std::strerror(cause)),
                  file.cost};
  if (!host.superuser) {
    finding.command = "sudo trapline doctor";
    finding.advice = "trapline record needs root; it runs COMMAND as you with --user NAME";
  } else if (cause == EPERM) {
    finding.found += " (locked: not even root may open it)";
    finding.advice =
        "cat /sys/kernel/security/lockdown shows whether the kernel is locked down "
        "(confidentiality; boot with lockdown=integrity), else a security module or the sandbox of "
        "this machine forbids it";
  } else {
    finding.advice = "a security module or a container may forbid it (docs/install.md)";
  }
  return finding;
}

}  // namespace

std::string_view name_of(Level level) {
  constexpr std::string_view kNames[] = {"ok", "limited", "missing"};
  return kNames[static_cast<std::size_t>(level)];
}

Level worst_of(const std::vector<Finding>& findings) {
  Level worst = Level::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.level);
  return worst;
}

std::string finding_text(const Finding& finding) {
  std::string out = fmt::format("{:<8} {}: {}\n", name_of(finding.level), finding.check,
                                printable(finding.found));
  const auto line = [&](std::string_view title, const std::string& text) {
    if (!text.empty()) out += fmt::format("           {:<8} {}\n", title, printable(text));
  };
  line("cost:", finding.cost);
  line("command:", finding.command);
  line("note:", finding.advice);
  return out;
}

std::string verdict_of(const std::vector<Finding>& findings) {
  const auto count = [&](Level level) {
    return std::ranges::count(findings, level, &Finding::level);
  };
  const auto is = [&](Level level, std::initializer_list<std::string_view> checks) {
    return std::ranges::any_of(findings, [&](const Finding& finding) {
      return finding.level == level && std::ranges::find(checks, finding.check) != checks.end();
    });
  };
  const auto number = [](std::ptrdiff_t n, std::string_view level) {
    return fmt::format("{} {} {}",
                       n == 0 ? "nothing" : std::to_string(n) + (n == 1 ? " thing" : " things"),
                       n < 2 ? "is" : "are", level);
  };
  const std::string records =
      is(Level::kMissing, {"tracefs", "tracefs files", "trace clock", "buffer", "disk"})
          ? "not ready to record"
      : is(Level::kMissing, {"processor", "/dev/kvm", "kvm events"})
          ? "no VM exits; a guest under TCG can be recorded"
      : is(Level::kLimited, {"processor"})
          ? fmt::format("exits to user space only; no {}", events::kvm_exit.name)
          : "VM exits can be recorded";
  std::string missing = number(count(Level::kMissing), "missing");
  missing.front() = missing.front() == 'n' ? 'N' : missing.front();
  return fmt::format("This host: {}. {}, {}", records, missing,
                     number(count(Level::kLimited), "limited"));
}

std::string why_no_exit(const Host& host, bool vm_seen) {
  for (const auto& findings : {check_kvm(host), check_events(host)}) {
    const auto missing = std::ranges::find(findings, Level::kMissing, &Finding::level);
    if (missing != findings.end()) return fmt::format("{}: {}", missing->check, missing->found);
  }
  if (!vm_seen) return "no VM ran, or it was idle or paused, or never left its guest";
  return processor_of(host) == Processor::kX86WithoutKvm
             ? fmt::format("this host's KVM may write no {}", events::kvm_exit.name)
             : "its VMs may have been idle";
}

Host look_at_host() {
  Host host;
  host.tracefs = find_tracefs().value_or("");
  host.superuser = ::geteuid() == 0;
  host.open_error = [](const std::string& path, int flags) {
    const UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC));
    return fd ? 0 : errno;
  };
  return host;
}

Processor processor_of(const Host& host) {
  const std::string cpuinfo = text_of(host.root + "/proc/cpuinfo");
  if (cpu_says(cpuinfo, "flags", "vmx")) return Processor::kVmx;
  if (cpu_says(cpuinfo, "flags", "svm")) return Processor::kSvm;
  if (cpuinfo.find("CPU implementer") != std::string::npos) return Processor::kArm64;
  return cpuinfo.find("vendor_id") != std::string::npos ? Processor::kX86WithoutKvm
                                                        : Processor::kOther;
}

std::vector<Finding> check_tracefs(const Host& host) {
  if (host.tracefs.empty()) {
    return {{"tracefs", Level::kMissing, "not mounted", "nothing can be recorded",
             "mount -t tracefs nodev /sys/kernel/tracing",
             "as root; in a container, bind the host's (docs/install.md)"}};
  }
  std::vector<Finding> findings{{"tracefs", Level::kOk, "mounted at " + host.tracefs}};
  std::size_t of_root = 0, first_of_root = 0;
  for (const NeededFile& file : kNeededFiles) {
    const int cause = host.open_error(host.tracefs + "/" + file.name, file.flags);
    if (cause == 0 || (cause == ENOENT && file.level == Level::kLimited)) continue;
    // A user who is not root may be refused many files, and one command fixes that: one finding
    // names the first of them and counts the others.
    if (!host.superuser && cause == EACCES) {
      if (++of_root > 1) continue;
      first_of_root = findings.size();
    }
    findings.push_back(refused(host, file, cause));
  }
  if (of_root > 1) {
    findings[first_of_root].found += fmt::format(", and {} more of its files", of_root - 1);
  }
  if (findings.size() == 1) {
    findings.push_back({"tracefs files", Level::kOk, "all that the recorder opens can be opened"});
  }
  return findings;
}

std::vector<Finding> check_clocks(const Host& host) {
  std::vector<Finding> findings;
  // Only root may read which clocks there are.
  if (std::string clocks = text_of(host.tracefs + "/trace_clock"); !clocks.empty()) {
    std::erase_if(clocks, [](char c) { return c == '[' || c == ']'; });
    const std::string padded = " " + std::string(trimmed(clocks)) + " ";
    findings.push_back(
        ok_or(padded.find(" mono ") != std::string::npos, "mono is there",
              {"trace clock", Level::kMissing,
               fmt::format("no mono; this kernel has: {}", trimmed(clocks)),
               "the recording has no clock that QEMU and the guest's plugin can read, "
               "and its default cannot be set",
               padded.find(" global ") != std::string::npos ? "trapline record --clock global" : "",
               "other sources are then aligned by sync records (docs/clocks.md)"}));
  }
  const Processor processor = processor_of(host);
  if (processor == Processor::kArm64 || processor == Processor::kOther) return findings;
  const std::string cpuinfo = text_of(host.root + "/proc/cpuinfo");
  const std::string clocksource = host.root + "/sys/devices/system/clocksource/clocksource0/";
  const std::string source = trimmed_text(clocksource + "current_clocksource");
  const bool constant =
      cpu_says(cpuinfo, "flags", "constant_tsc") && cpu_says(cpuinfo, "flags", "nonstop_tsc");
  const bool reads_tsc = source == "tsc" || source == "kvm-clock" || source.starts_with("hyperv");
  if (constant && reads_tsc) {
    findings.push_back(
        {"TSC", Level::kOk, "constant and never stops; the kernel's clock is " + source});
    return findings;
  }
  Finding& tsc = findings.emplace_back(Finding{
      "TSC", Level::kLimited,
      fmt::format("the kernel's clock is {}; constant_tsc and nonstop_tsc are {}",
                  source.empty() ? "unknown" : source, constant ? "there" : "not both there"),
      "each event's time is read more slowly, and a guest's clock cannot be aligned by the "
      "TSC",
      "", "dmesg | grep -i tsc shows why the kernel does not trust it"});
  if (constant && text_of(clocksource + "available_clocksource").find("tsc") != std::string::npos) {
    tsc.command = "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource";
  }
  return findings;
}

// The checks of KVM and its events.

namespace {

unsigned arch_of(Processor processor) {
  using enum RecordedBy::Arch;
  constexpr unsigned kArchs[] = {kEveryArch, kX86, kX86 | kSvmOnly, kArm, kX86};  // by Processor
  return kArchs[static_cast<std::size_t>(processor)];
}

bool has_event(const Host& host, const KernelEvent& event) {
  return !events_of(host.tracefs, std::string(event.system), event.name).empty();
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
  // Without the right to open the device, the device is there all the same.
  if (processor == Processor::kX86WithoutKvm && (cause == 0 || cause == EACCES)) {
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
  findings.push_back(ok_or(
      has_event(host, ioctl), "there",
      {std::string(ioctl.name), Level::kLimited, "this kernel lacks it",
       std::string(ioctl.recorded.without), "", "a kernel with CONFIG_FTRACE_SYSCALLS=y has it"}));
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
    findings.push_back(ok_or(
        lacking.empty(), fmt::format("the events of trapline record --{} are there", name),
        {name, Level::kLimited, "this kernel lacks " + lacking, std::string(cost->recorded.without),
         "", "another version or configuration of the kernel may have them"}));
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
  const std::string release = trimmed_text(host.root + "/proc/sys/kernel/osrelease");
  unsigned major = 0, minor = 0;
  if (std::sscanf(release.c_str(), "%u.%u", &major, &minor) == 2 &&
      (major < 6 || (major == 6 && minor < 11))) {
    return {{kCheck, Level::kLimited,
             fmt::format("Linux {} has function_graph outside of instances only", release), kCost,
             "", "Linux 6.11 and later has it"}};
  }
  return {{kCheck, Level::kOk, "functions of KVM's modules can be recorded"}};
}

// In the ring buffer an event takes a header of four bytes, and its fields, rounded up to four
// bytes.
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

// The checks of what surrounds a recording: buffers, disk, limits, and whether this machine is a
// guest.

namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;
// The recorder is woken when a quarter of a buffer is full; the rest must last until it runs.
constexpr double kBufferLeft = 0.75;
constexpr double kShortestStall = 0.1;  // seconds that the recorder may be delayed
// With less free space than this, check_disk() reports that nothing can be recorded.
constexpr std::uint64_t kLeastDisk = 16 * kMebibyte;
constexpr double kShortestRecording = 60;  // seconds of recording that should fit on the disk

std::uint64_t count_cpus(const Host& host) {
  std::uint64_t cpus = 0;
  while (is_folder(fmt::format("{}/per_cpu/cpu{}", host.tracefs, cpus))) ++cpus;
  return cpus;
}

bool any_file_says(const std::string& folder, const std::string& file, std::string_view text) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (trimmed_text(entry.path().string() + "/" + file) == text) return true;
  return false;
}

bool is_guest(const Host& host) {
  const std::string cpuinfo = text_of(host.root + "/proc/cpuinfo");
  const std::string maker = trimmed_text(host.root + "/sys/class/dmi/id/sys_vendor");
  return cpuinfo.find(" hypervisor") != std::string::npos || maker == "QEMU";
}

// Returns a value for --buffer-size with which the buffers of all CPUs take a quarter of the
// available memory, so that other programs and the guests have the rest.
std::string fitting_buffer(std::uint64_t available_kb, std::uint64_t cpus) {
  const std::uint64_t kb = std::max<std::uint64_t>(64, available_kb / cpus / 4);
  return size_text((kb < 1024 ? kb : kb / 1024 * 1024) * kKib);
}

}  // namespace

std::uint64_t available_memory_kb(const std::string& root) {
  const std::string text = text_of(root + "/proc/meminfo");
  const auto available = split(kernel_events::format_line(text, "MemAvailable:"), ' ');
  return parse_number(available.front()).value_or(0);
}

Result<void> check_buffer_size(std::uint64_t buffer_kb, std::uint64_t cpus,
                               std::uint64_t available_kb) {
  if (available_kb == 0 || cpus == 0 || buffer_kb <= available_kb / cpus) return {};
  return fail(ErrorKind::kUsage,
              "--buffer-size {}: {} CPUs need {}, and {} of memory are available; give {} or less",
              size_text(buffer_kb * kKib), cpus, size_text(cpus * buffer_kb * kKib),
              size_text(available_kb * kKib), fitting_buffer(available_kb, cpus));
}

std::vector<Finding> check_buffer(const Host& host) {
  const std::uint64_t cpus = count_cpus(host);
  if (cpus == 0) return {};
  const std::uint64_t exit_bytes = bytes_per_exit(host);
  const std::uint64_t available = available_memory_kb(host.root), whole = cpus * host.buffer_kb;
  std::string found = fmt::format("{} KiB for each of {} CPUs", host.buffer_kb, cpus);
  if (available != 0 && whole > available / 2) {
    return {{"buffer", whole > available ? Level::kMissing : Level::kLimited,
             fmt::format("{}; {} KiB of memory are available", found, available),
             "the kernel refuses the buffers, or takes the memory from the guests",
             "trapline record --buffer-size " + fitting_buffer(available, cpus)}};
  }
  if (exit_bytes == 0) return {{"buffer", Level::kOk, found}};
  const double rate = static_cast<double>(exit_bytes * kExitsPerSecond);
  const double seconds = static_cast<double>(host.buffer_kb) * 1024 * kBufferLeft / rate;
  found += fmt::format(
      "; at {} exits a second, {} bytes each, the recorder may wait {:.2f} s before events are "
      "lost",
      kExitsPerSecond, exit_bytes, seconds);
  if (seconds >= kShortestStall) return {{"buffer", Level::kOk, found}};
  const double wanted = kShortestStall * rate / kBufferLeft / 1024;
  return {{"buffer", Level::kLimited, found,
           "a busy vCPU may lose events; the report closes its exits there and counts the loss",
           fmt::format("trapline record --buffer-size {}",
                       size_text((static_cast<std::uint64_t>(wanted) / 1024 + 1) * kMib))}};
}

std::vector<Finding> check_worker() {
  auto worker = Worker::start("symbols", "the doctor", WorkerLimits::for_file(0));
  const auto answer = worker ? worker->ask(MessageKind::kStatus, {}, MessageKind::kStatus)
                             : Result<Worker::Message>(tl::unexpected(std::move(worker).error()));
  if (!answer) {
    return {{"worker", Level::kLimited, answer.error().message,
             "no trace.dat and no perf.data can be read, and no symbols of ELF files", "",
             "it comes in the package trapline-worker"}};
  }
  constexpr auto kFiltered = static_cast<std::uint32_t>(WorkerStatus::kFiltered);
  const auto bits = MessageReader(answer->payload).number<std::uint32_t>().value_or(0);
  if ((bits & kFiltered) == 0) {
    return {
        {"worker", Level::kOk, "parses files under limits", "", "",
         "without a seccomp filter, which this kernel or its container refuses; started by root it "
         "parses nothing then"}};
  }
  return {{"worker", Level::kOk, "parses files under a seccomp filter and limits"}};
}

std::vector<Finding> check_guest(const Host& host) {
  if (!is_guest(host)) {
    return {{"guest", Level::kOk,
             "this is not a virtual machine, so PTP_KVM does not matter here; run trapline doctor "
             "in the guest as well"}};
  }
  std::vector<Finding> findings{{"guest", Level::kOk, "this is a virtual machine"}};
  findings.push_back(
      ok_or(any_file_says(host.root + "/sys/class/ptp", "clock_name", "KVM virtual PTP"), "there",
            {"PTP_KVM", Level::kLimited, "no clock of that name in /sys/class/ptp",
             "trapline sync in this guest gives no PTP readings; its exits and its TSC "
             "remain to align it (docs/clocks.md)",
             "sudo modprobe ptp_kvm", "the host must be KVM"}));
  return findings;
}

std::vector<Finding> check_disk(const DiskFacts& disk, std::uint64_t exit_bytes) {
  if (!disk.error.empty() || disk.free_bytes < kLeastDisk) {
    return {{"disk", Level::kMissing,
             disk.error.empty()
                 ? fmt::format("{}: {} MiB free", disk.folder, disk.free_bytes / kMebibyte)
                 : fmt::format("{}: {}", disk.folder, disk.error),
             "too little for a session; with 16 MiB it holds some seconds",
             "trapline record -o /var/tmp/run.trapline", "or another folder with room"}};
  }
  Finding finding{"disk", Level::kOk,
                  fmt::format("{}: {} MiB free, {} MiB/s written", disk.folder,
                              disk.free_bytes / kMebibyte, disk.bytes_per_second / kMebibyte)};
  const std::uint64_t need = exit_bytes * kExitsPerSecond;
  if (need == 0) return {finding};
  const double vcpus = static_cast<double>(disk.bytes_per_second) / static_cast<double>(need);
  const double seconds = static_cast<double>(disk.free_bytes) / static_cast<double>(need);
  finding.found += fmt::format("; enough for {:.1f} vCPUs with {} exits a second, {:.0f} s of one",
                               vcpus, kExitsPerSecond, seconds);
  if (vcpus >= 1 && seconds >= kShortestRecording) return {finding};
  finding.level = Level::kLimited;
  finding.cost = vcpus < 1 ? "a busy vCPU makes events faster than they are written, and loses some"
                           : "a long recording is cut short when the disk is full";
  finding.command = "trapline record --snapshot-on 'exit > 500us'";
  finding.advice = "keeps slow exits only; or record into another folder with -o";
  return {finding};
}

DiskFacts measure_disk(const std::string& folder) {
  DiskFacts facts;
  std::error_code ignored;
  facts.folder = fs::absolute(folder, ignored).lexically_normal().string();
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) == 0) facts.free_bytes = status.f_bavail * status.f_frsize;
  const std::string name = fmt::format(".trapline-doctor-{}", ::getpid());
  const auto at = Folder::open(folder);
  auto made = at ? at->create(name) : tl::unexpected(at.error());
  if (!made) {
    const std::string& message = made.error().message;  // has the form PATH: reason
    facts.error = message.substr(message.rfind(": ") + 2);
    return facts;
  }
  const UniqueFd fd = std::move(*made);
  (void)at->remove(name);
  if (facts.free_bytes < 4 * kLeastDisk) return facts;
  const std::string block(8 * kMebibyte, 't');
  const std::uint64_t start = read_clock(ClockId::kMono);
  std::uint64_t written = 0, elapsed = 1;
  while (written < 32 * kMebibyte && elapsed < 1'000'000'000) {
    // Synced each time, to measure the disk rather than the page cache.
    if (!write_all(fd.get(), block, name) || ::fdatasync(fd.get()) != 0) {
      facts.error = std::strerror(errno);
      return facts;
    }
    written += block.size();
    elapsed = std::max<std::uint64_t>(1, read_clock(ClockId::kMono) - start);
  }
  facts.bytes_per_second =
      static_cast<std::uint64_t>(static_cast<double>(written) * 1e9 / static_cast<double>(elapsed));
  return facts;
}

std::vector<Finding> check_qemu(const std::optional<QemuProgram>& qemu) {
  if (!qemu) {
    return {
        {"QEMU", Level::kLimited, "no qemu-system-* in PATH",
         "QEMU's events and the guest's functions of a COMMAND cannot be recorded; kernel events "
         "of virtual machines that run can",
         "", "trapline doctor --qemu PROGRAM names one elsewhere; docs/qemu.md"}};
  }
  std::vector<Finding> findings;
  const QemuFacts& facts = qemu->facts;
  if (facts.version.empty()) {
    return {{"QEMU", Level::kLimited, qemu->path + " says no version",
             "it cannot be recorded as QEMU", "",
             "trapline doctor --qemu PROGRAM names another one"}};
  }
  findings.push_back(
      {"QEMU", Level::kOk, fmt::format("{}, version {}", qemu->path, facts.version)});
  findings.push_back(
      ok_or(facts.tracing != QemuTracing::kNone,
            facts.tracing == QemuTracing::kLog ? "log backend" : "ftrace backend",
            {"QEMU's events", Level::kLimited, "neither the log nor the ftrace backend",
             "exits have no QEMU function and no request, only the kernel's detail", "",
             "build QEMU with --enable-trace-backends=log (docs/qemu.md)"}));
  findings.push_back(
      ok_or(qemu->has_plugins, "built with plugins; ours needs QEMU 9.0 or later",
            {"QEMU's plugins", Level::kLimited, "built without plugins",
             "the guest's functions cannot be recorded (--functions)", "",
             "the plugin needs QEMU 9.0 or later, built with --enable-plugins (docs/install.md)"}));
  return findings;
}

std::optional<QemuProgram> find_qemu(const Host& host, const std::string& wanted) {
  QemuProgram qemu;
  qemu.path = wanted;
  const bool arm = processor_of(host) == Processor::kArm64;
  for (const char* name :
       {arm ? "qemu-system-aarch64" : "qemu-system-x86_64", "qemu-kvm", "qemu-system-aarch64",
        "qemu-system-arm", "qemu-system-i386", "qemu-system-ppc64", "qemu-system-riscv64",
        "qemu-system-s390x", "qemu-system-x86_64"})
    if (qemu.path.empty()) qemu.path = find_program(name).value_or("");
  if (qemu.path.empty()) return std::nullopt;
  qemu.facts = ask_qemu(qemu.path, std::nullopt);
  qemu.has_plugins =
      output_of({qemu.path, "-help"}, std::nullopt).find("\n-plugin ") != std::string::npos;
  return qemu;
}

}  // namespace trapline::record
