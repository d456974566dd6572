// The names by which people know their virtual machines: from the command line of the process.
#pragma once

#include <string>
#include <vector>

#include "merge/record/threads.h"
#include "merge/session/session_json.h"

namespace trapline::record {

// QEMU's `-name guest=NAME` or `-name NAME` (libvirt gives the domain's name there), else `-uuid`;
// Firecracker's --id. Empty where the command line is of no virtual machine, or gives no name.
[[nodiscard]] std::string vm_name_of(const std::vector<std::string>& words);

// The words of a process's command line now; none when it has ended.
[[nodiscard]] std::vector<std::string> command_line_of(pid_t pid);

// KVM's virtual machines that run on this host: of each process that holds one, and can be seen.
[[nodiscard]] std::vector<SessionVm> running_vms();

// Remembers the names of the processes that a ThreadTable has found.
class VmNames {
 public:
  // Looks at processes that are new; whether a name is.
  bool update(const std::map<pid_t, Thread>& threads);
  // Of those that run vCPUs: a script that starts a QEMU has the same words in its command line.
  [[nodiscard]] std::vector<SessionVm> vms(const std::map<pid_t, Thread>& threads) const;

 private:
  std::map<pid_t, std::string> names_;  // empty: it has none
};

}  // namespace trapline::record
