// Finds the threads that ran for each VM, and their roles: the report's table, top, its metrics and
// diff sum the threads' times.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "merge/analyze/host_runs.h"
#include "merge/model/event.h"
#include "merge/pass/naming.h"

namespace trapline {

enum class HostRole : std::uint8_t {
  kNotKnown,
  kVcpu,
  kMainLoop,
  kIoThread,
  kVhost,
  kIoUring,  // workers of the VM's process that io_uring made
  kKernel,
  kWork,  // kernel workers, while they ran work items that a thread of the VM queued
  kOther
};
// Returns "vcpu", "main loop", "iothread", "vhost", "io_uring", "kernel", "work items",
// "other", "not known".
[[nodiscard]] std::string_view text_of(HostRole role);
// The roles of threads that ran for a VM, in the order in which they are shown.
inline constexpr std::array kRolesOfVm = {
    HostRole::kVcpu,    HostRole::kMainLoop, HostRole::kIoThread, HostRole::kVhost,
    HostRole::kIoUring, HostRole::kKernel,   HostRole::kWork,     HostRole::kOther};
// Returns whether only the names of threads tell of the role.
[[nodiscard]] constexpr bool is_by_name(HostRole role) {
  return role >= HostRole::kIoThread && role <= HostRole::kKernel;
}
// Returns the role's text as a key: "main_loop".
[[nodiscard]] std::string key_of(HostRole role);

// A thread that ran for a VM, with its runs from HostRuns::threads().
struct HostThread {
  const Vm* vm = nullptr;  // one of Naming::vms
  HostRole role = HostRole::kNotKnown;
  std::string comm;
  HostRuns::Entry runs;
  bool lacks_runs = false;  // not all switches of the thread were recorded, or `unsure`
  bool unsure = false;      // the thread may be of another process, which had an id of its own
};
// Returns those of `runs`, from HostRuns::threads(), that ran for the VMs of selected vCPUs; the
// one that ran longest comes first.
[[nodiscard]] std::vector<HostThread> host_threads(const Naming& names,
                                                   const std::vector<HostRuns::Entry>& runs);
// Returns the kernel workers that ran work items for the VMs of selected vCPUs, each with what it
// ran in these, as a thread whose turns are the items.
[[nodiscard]] std::vector<HostThread> host_works(const Naming& names);

// Returns the number of the host's CPUs; 0: not known.
[[nodiscard]] std::uint32_t host_cpus(const Timeline& timeline);

}  // namespace trapline
