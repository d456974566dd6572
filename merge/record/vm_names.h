// Finds the names by which people know their virtual machines, in the command line of the process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "merge/record/threads.h"
#include "merge/session/session_json.h"

namespace trapline::record {

// Returns the VM's name in a command line: QEMU's `-name guest=NAME` or `-name NAME` (libvirt's
// domain, KubeVirt's NAMESPACE_NAME, Kata's sandbox-ID), else `-uuid`; Firecracker's --id;
// "sandbox-ID" for Kata's Cloud Hypervisor and its shim. Empty if the command line is not a
// virtual machine's, or gives no name.
[[nodiscard]] std::string vm_name_of(const std::vector<std::string>& words);

// Returns the VM's name in /proc/PID/cgroup: libvirt's, or "pod-UID" for Kubernetes; else empty.
[[nodiscard]] std::string vm_name_of_cgroup(std::string_view proc_cgroup);

// Returns the name of the VM that a process runs, from its command line, else from its cgroup.
[[nodiscard]] std::string vm_name_of_process(pid_t pid);

// Returns the words of a process's present command line; none if the process has ended.
[[nodiscard]] std::vector<std::string> command_line_of(pid_t pid);

// Returns KVM's virtual machines on this host, for each process that has one and is visible.
[[nodiscard]] std::vector<SessionVm> running_vms();

// Stores the names of the processes that a TracedThreads has found.
class VmNames {
 public:
  // Examines new processes. Returns whether a name is new.
  bool update(const std::map<pid_t, Thread>& threads);
  // Returns the VMs of processes that have vCPU threads: a script that starts a QEMU has the same
  // words in its command line, but no vCPUs.
  [[nodiscard]] std::vector<SessionVm> vms(const std::map<pid_t, Thread>& threads) const;

 private:
  struct Name {
    std::string text;
    bool is_given = false;  // by the command line; else a later look may find one
  };
  std::map<pid_t, Name> names_;
};

}  // namespace trapline::record
