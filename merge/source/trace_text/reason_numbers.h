// The names that KVM prints for exit reasons, with their numbers, for texts that have only one of
// them. From Linux: arch/x86/include/uapi/asm/{vmx,svm}.h, arch/arm64 and include/uapi/linux/kvm.h;
// also the names that trace-cmd's plugin has for SVM.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "merge/source/kernel_events/formats.h"

namespace trapline::trace_text {

struct NumberedReason {
  std::uint32_t isa = 0;  // 1: VMX, 2: SVM
  std::uint32_t reason = 0;
};
// Finds a reason by names like "EPT_MISCONFIG", "npf", "EXIT_NPF".
[[nodiscard]] std::optional<NumberedReason> x86_reason(std::string_view name);
// Finds the only reason whose name begins with `name`; nullopt if there are none or several.
[[nodiscard]] std::optional<NumberedReason> x86_reason_beginning(std::string_view name);
// Finds a reason of arm64 by its name: "TRAP", "IRQ", "SERROR".
[[nodiscard]] std::optional<std::uint32_t> arm64_reason(std::string_view name);

[[nodiscard]] kernel_events::ReasonNames kernels_reason_names();

}  // namespace trapline::trace_text
