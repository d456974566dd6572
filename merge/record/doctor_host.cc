// Checks the surroundings of a recording: buffers, disk, limits, and whether this is a guest.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/landlock.h"
#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/size.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/unique_fd.h"
#include "backend_ftrace/base/worker.h"
#include "backend_ftrace/clock.h"
#include "merge/record/doctor.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMebibyte = 1 << 20;
// The recorder is woken when a quarter of a buffer is full; the rest must last until it runs.
constexpr double kBufferLeft = 0.75;
constexpr double kShortestStall = 0.1;  // seconds that the recorder may be delayed
// Free bytes with which a session is of any use.
constexpr std::uint64_t kLeastDisk = 16 * kMebibyte;
constexpr double kShortestRecording = 60;  // seconds of recording that should fit on the disk

std::string trimmed_text(const std::string& path) {
  return std::string(trimmed(read_text(path).value_or("")));
}

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
  const std::string cpuinfo = read_text(host.root + "/proc/cpuinfo").value_or("");
  const std::string maker = trimmed_text(host.root + "/sys/class/dmi/id/sys_vendor");
  return cpuinfo.find(" hypervisor") != std::string::npos || maker == "QEMU";
}

Finding check_ptrace(const Host& host) {
  const std::string scope = trimmed_text(host.root + "/proc/sys/kernel/yama/ptrace_scope");
  const std::uint64_t level = parse_number(scope).value_or(0);
  if (level == 0 || (level < 3 && host.superuser)) {
    return {"ptrace_scope", Level::kOk, scope.empty() ? "not limited" : scope};
  }
  return {"ptrace_scope",
          Level::kLimited,
          scope,
          "uftrace and gdb cannot attach to a program that runs (uftrace record -p); trapline "
          "record does not attach and is not limited",
          level < 3 ? "sudo sysctl -w kernel.yama.ptrace_scope=0" : "",
          level < 3 ? "until the next boot" : "3 cannot be taken back before the next boot"};
}

// Returns a value for --buffer-size with which the buffers of all CPUs take a quarter of the
// available memory, so that other programs and the guests have the rest.
std::string fitting_buffer(std::uint64_t available_kb, std::uint64_t cpus) {
  const std::uint64_t kb = std::max<std::uint64_t>(64, available_kb / cpus / 4);
  return size_text((kb < 1024 ? kb : kb / 1024 * 1024) * kKib);
}

}  // namespace

std::uint64_t available_memory_kb(const std::string& root) {
  const std::string text = read_text(root + "/proc/meminfo").value_or("");
  const std::size_t at = text.find("MemAvailable:");
  if (at == std::string::npos) return 0;
  const std::size_t first = text.find_first_of("0123456789", at);
  return parse_number(text.substr(first, text.find(' ', first) - first)).value_or(0);
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

std::vector<Finding> check_limits(const Host& host) {
  std::vector<Finding> findings;
  const std::string paranoid = trimmed_text(host.root + "/proc/sys/kernel/perf_event_paranoid");
  const bool open = host.superuser || paranoid.empty() || paranoid.starts_with('-') ||
                    parse_number(paranoid).value_or(9) <= 1;
  if (open) {
    findings.push_back({"perf_event_paranoid", Level::kOk,
                        paranoid.empty() ? "this kernel has no perf events" : paranoid});
  } else {
    findings.push_back(
        {"perf_event_paranoid", Level::kLimited, paranoid,
         "uftrace as you records no switches between tasks (perf-cpu*.dat), and perf "
         "sees nothing of the kernel; trapline record uses neither",
         "sudo sysctl -w kernel.perf_event_paranoid=1", "until the next boot"});
  }
  findings.push_back(check_ptrace(host));
  return findings;
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

std::vector<Finding> check_landlock() {
  if (Landlock(Landlock::Reading::kNamed).restricts())
    return {{"landlock", Level::kOk, "commands that read recordings reach only their own files"}};
  return {{"landlock", Level::kOk, "this kernel has none", "", "",
           "a command that reads recordings as root gives up its capabilities, and still can open "
           "what user 0 owns; Linux 5.13 and later restrict it (boot parameter lsm=landlock,...)"}};
}

std::vector<Finding> check_guest(const Host& host) {
  if (!is_guest(host)) {
    return {{"guest", Level::kOk,
             "this is not a virtual machine, so PTP_KVM and a guest agent do not "
             "matter here; run trapline doctor in the guest as well"}};
  }
  std::vector<Finding> findings{{"guest", Level::kOk, "this is a virtual machine"}};
  if (any_file_says(host.root + "/sys/class/ptp", "clock_name", "KVM virtual PTP")) {
    findings.push_back({"PTP_KVM", Level::kOk, "there"});
  } else {
    findings.push_back({"PTP_KVM", Level::kLimited, "no clock of that name in /sys/class/ptp",
                        "trapline sync in this guest gives no PTP readings; its exits and its TSC "
                        "remain to align it (docs/clocks.md)",
                        "sudo modprobe ptp_kvm", "the host must be KVM"});
  }
  constexpr const char* kPort = "org.qemu.guest_agent.0";
  if (!any_file_says(host.root + "/sys/class/virtio-ports", "name", kPort)) {
    findings.push_back(
        {"guest agent", Level::kOk, "QEMU gives this guest no port for one; trapline needs none"});
  } else if (any_file_says(host.root + "/proc", "comm", "qemu-ga")) {
    findings.push_back({"guest agent", Level::kOk, "runs"});
  } else {
    findings.push_back({"guest agent", Level::kLimited, "its port is there, qemu-ga does not run",
                        "the host cannot start trapline sync in this guest; start it by hand",
                        "sudo systemctl start qemu-guest-agent",
                        "the distribution's package is qemu-guest-agent"});
  }
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
    const std::string& told = made.error().message;  // has the form PATH: reason
    facts.error = told.substr(told.rfind(": ") + 2);
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

}  // namespace trapline::record
