// Checks tracefs, the processor and the clocks.
#include "merge/record/doctor.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/unique_fd.h"
#include "backend_ftrace/tracefs.h"

#include "merge/model/kernel_events.h"

namespace trapline::record {
namespace {

std::string text_of(const std::string& path) { return read_text(path).value_or(""); }

// Returns whether a line of /proc/cpuinfo that begins with `key` contains the word.
bool cpu_says(const std::string& cpuinfo, std::string_view key, std::string_view word) {
  std::size_t at = 0;
  while (at < cpuinfo.size()) {
    const std::size_t end = std::min(cpuinfo.find('\n', at), cpuinfo.size());
    const std::string line = cpuinfo.substr(at, end - at) + " ";
    if (line.starts_with(key)) return line.find(fmt::format(" {} ", word)) != std::string::npos;
    at = end + 1;
  }
  return false;
}

struct NeededFile {
  const char* name;
  int flags;
  const char* cost;
  Level level;
};
// The top level's files, which have the same permissions as an instance's, so these are tried. They
// are only opened and closed, which changes nothing.
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
    {"set_ftrace_filter", O_RDONLY,
     "the kernel's functions cannot be chosen for a recording beside this one (uftrace, "
     "trace-cmd -p function); trapline record does not use it",
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
  if (!vm_seen) return "no VM under KVM was seen";
  return processor_of(host) == Processor::kX86WithoutKvm
             ? fmt::format("this host's KVM may write no {}", events::kvm_exit.name)
             : "its VMs may have been idle";
}

Host look_at_host(const std::string& root) {
  Host host;
  host.root = root;
  char found[tracefs::kMaxPath];
  if (tracefs::find(found, (root + "/sys/kernel/tracing").c_str(),
                    (root + "/proc/mounts").c_str())) {
    host.tracefs = found;
  }
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
    // only kernels with function tracing have set_ftrace_filter
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
  if (!host.tracefs.empty()) {
    std::string clocks = text_of(host.tracefs + "/trace_clock");
    std::erase_if(clocks, [](char c) { return c == '[' || c == ']'; });
    const std::string padded = " " + std::string(trimmed(clocks)) + " ";
    if (padded.find(" mono ") != std::string::npos) {
      findings.push_back({"trace clock", Level::kOk, "mono is there"});
    } else {
      findings.push_back(
          {"trace clock", Level::kMissing,
           fmt::format("no mono; this kernel has: {}", trimmed(clocks)),
           "the recording has no clock that QEMU and the guest's plugin can read, "
           "and its default cannot be set",
           padded.find(" global ") != std::string::npos ? "trapline record --clock global" : "",
           "other sources are then aligned by sync records (docs/clocks.md)"});
    }
  }
  const Processor processor = processor_of(host);
  if (processor == Processor::kArm64 || processor == Processor::kOther) return findings;
  const std::string cpuinfo = text_of(host.root + "/proc/cpuinfo");
  const std::string source(
      trimmed(text_of(host.root + "/sys/devices/system/clocksource/clocksource0/"
                                  "current_clocksource")));
  const bool constant =
      cpu_says(cpuinfo, "flags", "constant_tsc") && cpu_says(cpuinfo, "flags", "nonstop_tsc");
  const bool reads_tsc = source == "tsc" || source == "kvm-clock" || source.starts_with("hyperv");
  if (constant && reads_tsc) {
    findings.push_back(
        {"TSC", Level::kOk, "constant and never stops; the kernel's clock is " + source});
    return findings;
  }
  Finding tsc{
      "TSC",
      Level::kLimited,
      fmt::format("the kernel's clock is {}; constant_tsc and nonstop_tsc are {}",
                  source.empty() ? "unknown" : source, constant ? "there" : "not both there"),
      "each event's time is read more slowly, and a guest's clock cannot be aligned by the "
      "TSC",
      "",
      "dmesg | grep -i tsc shows why the kernel does not trust it"};
  if (constant && text_of(host.root + "/sys/devices/system/clocksource/clocksource0/"
                                      "available_clocksource")
                          .find("tsc") != std::string::npos) {
    tsc.command = "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource";
  }
  findings.push_back(std::move(tsc));
  return findings;
}

}  // namespace trapline::record
