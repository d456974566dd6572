#include "plugin/arch/architecture.h"

namespace trapline {

// The constants of all architectures, each defined in the file of the same name.
extern const Architecture kX86_64, kI386;  // x86_64.cc
extern const Architecture kAarch64;
extern const Architecture kRiscv64;

namespace {
const Architecture* const kArchitectures[] = {&kX86_64, &kI386, &kAarch64, &kRiscv64};
}

const Architecture* architecture(std::string_view qemu_target) {
  for (const Architecture* arch : kArchitectures)
    if (arch->name == qemu_target) return arch;
  return nullptr;
}

std::string known_architectures() {
  std::string names;
  for (const Architecture* arch : kArchitectures) {
    if (!names.empty()) names += ", ";
    names += arch->name;
  }
  return names;
}

}  // namespace trapline
