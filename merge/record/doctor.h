// What a host can record, and how well: the checks of `trapline doctor`.
//
// Guarantees: a check only reads. It looks below Host::root, so that a test gives it a tree that it
// made; what a check cannot read there (programs that are run, the speed of a disk) comes as facts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"

namespace trapline::record {

enum class Level : std::uint8_t {
  kOk,
  kLimited,  // recorded, with less in the report
  kMissing,  // cannot be recorded
};
[[nodiscard]] std::string_view name_of(Level level);

struct Finding {
  std::string check;  // the same name on every host: "kvm events"
  Level level = Level::kOk;
  std::string found;      // a sentence's worth of fact
  std::string cost{};     // to the report; empty when ok
  std::string command{};  // closes the gap, for a shell; empty where none does
  std::string advice{};   // where no command does, or what to know of it
};

struct Host {
  std::string root;     // "" is this machine
  std::string tracefs;  // its folder, with the root; empty: not mounted
  bool superuser = false;
  std::uint64_t buffer_kb = 8192;  // as `trapline record --buffer-size`
  // 0, or the errno with which the file cannot be opened.
  std::function<int(const std::string& path, int flags)> open_error;
};
// The host whose files are below `root`; "" is this machine.
[[nodiscard]] Host look_at_host(const std::string& root);

enum class Processor : std::uint8_t { kOther, kVmx, kSvm, kArm64, kX86WithoutKvm };
[[nodiscard]] Processor processor_of(const Host& host);

[[nodiscard]] std::vector<Finding> check_tracefs(const Host& host);
[[nodiscard]] std::vector<Finding> check_kvm(const Host& host);
[[nodiscard]] std::vector<Finding> check_events(const Host& host);
// Those of `record --stalls` and `record --faults` beside KVM's.
[[nodiscard]] std::vector<Finding> check_option_events(const Host& host);
// Those of `record --kernel-functions`.
[[nodiscard]] std::vector<Finding> check_kernel_functions(const Host& host);
[[nodiscard]] std::vector<Finding> check_clocks(const Host& host);
[[nodiscard]] std::vector<Finding> check_buffer(const Host& host);
// MemAvailable of /proc/meminfo, in KiB; 0: not known.
[[nodiscard]] std::uint64_t available_memory_kb(const std::string& root = "");
// An Error (kUsage) where buffers of so many CPUs are more than that: the kernel would take what
// there is before it refused the rest.
[[nodiscard]] Result<void> check_buffer_size(std::uint64_t buffer_kb, std::uint64_t cpus,
                                             std::uint64_t available_kb);
[[nodiscard]] std::vector<Finding> check_limits(const Host& host);
[[nodiscard]] std::vector<Finding> check_guest(const Host& host);
// Starts the worker that parses files, and asks it what holds it.
[[nodiscard]] std::vector<Finding> check_worker();

// Bytes in the ring buffer of an exit that QEMU serves, by the formats of this kernel's events
// (kvm_exit, kvm_mmio, kvm_userspace_exit, sys_enter_ioctl, kvm_entry). 0: no kvm_exit.
[[nodiscard]] std::uint64_t bytes_per_exit(const Host& host);
// What the doctor expects of a busy vCPU: one exit in 10 us.
inline constexpr std::uint64_t kExitsPerSecond = 100'000;

struct DiskFacts {
  std::string folder;
  std::uint64_t free_bytes = 0;
  std::uint64_t bytes_per_second = 0;
  std::string error;  // nothing can be written there
};
[[nodiscard]] std::vector<Finding> check_disk(const DiskFacts& disk, std::uint64_t exit_bytes);

// Writes 32 MiB at most, for a second at most, which are gone after.
[[nodiscard]] DiskFacts measure_disk(const std::string& folder);

[[nodiscard]] Level worst_of(const std::vector<Finding>& findings);
// One line: which exits this host can record, and how many findings are missing and limited.
[[nodiscard]] std::string verdict_of(const std::vector<Finding>& findings);
// Says why no kvm_exit comes, in a clause. `vm_seen`: a VM runs under KVM, or its events came.
[[nodiscard]] std::string why_no_exit(const Host& host, bool vm_seen);

}  // namespace trapline::record
