// Finds the names by which people know their virtual machines, in the command line of the process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "merge/record/threads.h"
#include "merge/session/session_json.h"

namespace trapline::record {

// QEMU's `-name guest=NAME` or `-name NAME` (libvirt gives the domain's name there, KubeVirt
// NAMESPACE_NAME, Kata sandbox-ID), else `-uuid`; Firecracker's --id; sandbox-ID of Kata's Cloud
// Hypervisor and of its shim. Empty where the command line is of no virtual machine, or gives no
// name.
[[nodiscard]] std::string vm_name_of(const std::vector<std::string>& words);

// The name of /proc/PID/cgroup: of libvirt's machine, "pod-UID" of a pod of Kubernetes; else empty.
[[nodiscard]] std::string vm_name_of_cgroup(std::string_view proc_cgroup);

// The name of a process that runs a VM: of its command line, else of its cgroup.
[[nodiscard]] std::string vm_name_of_process(pid_t pid);

// The words of a process's command line now; none when it has ended.
[[nodiscard]] std::vector<std::string> command_line_of(pid_t pid);

// Returns KVM's virtual machines on this host, for each process that has one and is visible.
[[nodiscard]] std::vector<SessionVm> running_vms();

// Stores the names of the processes that a ThreadTable has found.
class VmNames {
 public:
  // Examines new processes. Returns whether a name is new.
  bool update(const std::map<pid_t, Thread>& threads);
  // Returns those of processes that run vCPUs: a script that starts a QEMU has the same words in
  // its command line.
  [[nodiscard]] std::vector<SessionVm> vms(const std::map<pid_t, Thread>& threads) const;

 private:
  struct Name {
    std::string text;
    bool is_given = false;  // by the command line; else a later look may find one
  };
  std::map<pid_t, Name> names_;
};

}  // namespace trapline::record
