// The checks of `trapline doctor`: what a host can record, and how well.
//
// Guarantees: a check of a Host only reads, and only below Host::root, so that a test can pass a
// made-up tree. What cannot be read from files (programs that must be run, the speed of a disk) is
// passed to a check as facts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/record/qemu_command.h"

namespace trapline::record {

enum class Level : std::uint8_t {
  kOk,
  kLimited,  // can be recorded, with less in the report
  kMissing,  // cannot be recorded
};
[[nodiscard]] std::string_view name_of(Level level);

struct Finding {
  std::string check;  // the check's name, the same on every host: "kvm events"
  Level level = Level::kOk;
  std::string found;      // the fact, as a sentence
  std::string cost{};     // what the report loses; empty if ok
  std::string command{};  // a shell command that fixes it; empty if there is none
  std::string advice{};   // what to do if no command helps, or what to know about the command
};

struct Host {
  std::string root;     // "": this machine
  std::string tracefs;  // its folder, including the root; empty: not mounted
  bool superuser = false;
  std::uint64_t buffer_kb = 8192;  // as for `trapline record --buffer-size`
  // Returns 0, or the errno with which opening the file fails.
  std::function<int(const std::string& path, int flags)> open_error;
};
// Returns this machine.
[[nodiscard]] Host look_at_host();

enum class Processor : std::uint8_t { kOther, kVmx, kSvm, kArm64, kX86WithoutKvm };
[[nodiscard]] Processor processor_of(const Host& host);

[[nodiscard]] std::vector<Finding> check_tracefs(const Host& host);
[[nodiscard]] std::vector<Finding> check_kvm(const Host& host);
[[nodiscard]] std::vector<Finding> check_events(const Host& host);
// Checks the events of `record --stalls` and `record --faults`. Skips KVM's events if KVM's module
// is not loaded.
[[nodiscard]] std::vector<Finding> check_option_events(const Host& host);
// Checks the tracer of `record --kernel-functions`.
[[nodiscard]] std::vector<Finding> check_kernel_functions(const Host& host);
[[nodiscard]] std::vector<Finding> check_clocks(const Host& host);
[[nodiscard]] std::vector<Finding> check_buffer(const Host& host);
// Returns MemAvailable of /proc/meminfo in KiB; 0: not known.
[[nodiscard]] std::uint64_t available_memory_kb(const std::string& root = "");
// Returns an Error (kUsage) if buffers of `buffer_kb` for each of `cpus` exceed the available
// memory: the kernel would use up that memory before it refuses further buffers.
[[nodiscard]] Result<void> check_buffer_size(std::uint64_t buffer_kb, std::uint64_t cpus,
                                             std::uint64_t available_kb);
[[nodiscard]] std::vector<Finding> check_guest(const Host& host);
// Starts the worker, the sandboxed process that parses files, and checks its seccomp filter.
[[nodiscard]] std::vector<Finding> check_worker();

// Returns the bytes in the ring buffer for an exit that QEMU serves, from the formats of this
// kernel's events (kvm_exit, kvm_mmio, kvm_userspace_exit, sys_enter_ioctl, kvm_entry). 0: not
// known, for example because this kernel has no kvm_exit.
[[nodiscard]] std::uint64_t bytes_per_exit(const Host& host);
// Assumed for a busy vCPU: one exit in 10 us.
inline constexpr std::uint64_t kExitsPerSecond = 100'000;

struct DiskFacts {
  std::string folder;
  std::uint64_t free_bytes = 0;
  std::uint64_t bytes_per_second = 0;
  std::string error;  // set if nothing can be written there
};
[[nodiscard]] std::vector<Finding> check_disk(const DiskFacts& disk, std::uint64_t exit_bytes);

// Measures free space and write speed of a folder: writes up to 32 MiB to a temporary file.
[[nodiscard]] DiskFacts measure_disk(const std::string& folder);

[[nodiscard]] Level worst_of(const std::vector<Finding>& findings);
// Returns "missing  tracefs: not mounted" and, below it, what the report loses and what fixes it.
[[nodiscard]] std::string finding_text(const Finding& finding);
// Returns one line: which exits this host can record, and how many findings are missing or limited.
[[nodiscard]] std::string verdict_of(const std::vector<Finding>& findings);
struct QemuProgram {
  std::string path;
  QemuFacts facts;
  bool has_plugins = false;
};
// Checks a QEMU: its version, its trace backends, its plugins. Without a program, the finding says
// what cannot be recorded.
[[nodiscard]] std::vector<Finding> check_qemu(const std::optional<QemuProgram>& qemu);
// Runs the program to find its facts. `wanted` is a program; empty: the first QEMU in PATH.
[[nodiscard]] std::optional<QemuProgram> find_qemu(const Host& host, const std::string& wanted);

// Returns a clause that says why no kvm_exit was recorded. `vm_seen`: a VM runs under KVM, or other
// events of KVM were recorded.
[[nodiscard]] std::string why_no_exit(const Host& host, bool vm_seen);

}  // namespace trapline::record
