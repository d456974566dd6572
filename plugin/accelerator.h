// Whether QEMU runs the guest in a way that plugins see: only TCG, QEMU's own translator, is.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace trapline {

// The accelerators that a QEMU command line asks for, the first one that works is taken; empty:
// none is named, which means TCG.
[[nodiscard]] std::vector<std::string> accelerators_of(std::span<const std::string> arguments);

// This process has KVM's device or a virtual machine of KVM open, or will have: it is the first
// that the command line names, and /dev/kvm can be opened.
[[nodiscard]] bool runs_under_kvm();

// /proc/self/cmdline.
[[nodiscard]] std::vector<std::string> command_line();

}  // namespace trapline
