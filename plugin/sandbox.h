// Whether QEMU's own sandbox lets this process have children: it kills QEMU for an attempt.
#pragma once

#include <span>
#include <string>

namespace trapline {

// Whether a QEMU command line asks for -sandbox …,spawn=deny, as libvirt's do; a file of options
// (-readconfig) may.
[[nodiscard]] bool denies_children(std::span<const std::string> arguments);

// The same of this process. Without a filter, or with another's (a container's), it may have them.
[[nodiscard]] bool children_are_denied();

}  // namespace trapline
