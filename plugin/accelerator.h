// Finds out whether plugins see the guest's instructions: only with TCG, QEMU's own translator.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace trapline {

// Returns the accelerators that a QEMU command line names, of which QEMU takes the first that
// works. Empty: the command line names none, which means TCG.
[[nodiscard]] std::vector<std::string> accelerators_of(std::span<const std::string> arguments);

// Returns whether this process uses KVM: it has KVM's device or a virtual machine open, or the
// first accelerator on the command line is KVM and /dev/kvm can be opened.
[[nodiscard]] bool runs_under_kvm();

// Returns this process's command line, from /proc/self/cmdline.
[[nodiscard]] std::vector<std::string> command_line();

}  // namespace trapline
