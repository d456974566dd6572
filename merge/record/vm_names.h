// Finds the names by which people know their virtual machines, in the command line of the process.
#pragma once

#include <string>
#include <vector>

#include "merge/record/threads.h"
#include "merge/session/session_json.h"

namespace trapline::record {

// Returns the value of QEMU's `-name guest=NAME` or `-name NAME` (libvirt's domain name), else of
// `-uuid`; of Firecracker's --id. Empty if the command line is not a virtual machine's or has no
// name.
[[nodiscard]] std::string vm_name_of(const std::vector<std::string>& words);

// Returns the words of a process's present command line; none if it has ended.
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
  std::map<pid_t, std::string> names_;  // empty: it has no name
};

}  // namespace trapline::record
