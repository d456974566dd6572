// The names of RISC-V's causes of a trap. Its kvm_exit prints numbers only, so these are not the
// recording's: as arch/riscv/include/asm/csr.h spells them, and `perf kvm stat` prints them.
#pragma once

#include <cstdint>
#include <string>

namespace trapline::kernel_events {

// Of scause, the highest bit an interrupt's; the number where the cause has no name.
[[nodiscard]] std::string riscv_cause(std::uint32_t cause, std::uint32_t exception_class);

}  // namespace trapline::kernel_events
