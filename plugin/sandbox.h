// Finds out whether QEMU's own sandbox allows child processes: it kills QEMU for an attempt.
#pragma once

#include <span>
#include <string>

namespace trapline {

// Returns whether a QEMU command line has -sandbox …,spawn=deny, as libvirt's do, or a file of
// options (-readconfig), which may contain it.
[[nodiscard]] bool denies_children(std::span<const std::string> arguments);

// Returns whether QEMU's sandbox denies children to this process. False without a seccomp filter,
// or with one that is not QEMU's (a container's).
[[nodiscard]] bool children_are_denied();

}  // namespace trapline
