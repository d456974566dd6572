// The numbers of the names that KVM prints for exits, and the names of the numbers, where a text
// has one without the other: as in arch/x86/include/uapi/asm/{vmx,svm}.h, arch/arm64 and
// include/uapi/linux/kvm.h of Linux, with the names that trace-cmd's plugin has for SVM's.
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
// "EPT_MISCONFIG", "npf", "EXIT_NPF".
[[nodiscard]] std::optional<NumberedReason> x86_reason(std::string_view name);
// Of the only reason whose name begins so.
[[nodiscard]] std::optional<NumberedReason> x86_reason_beginning(std::string_view name);
// "TRAP", "IRQ", "SERROR".
[[nodiscard]] std::optional<std::uint32_t> arm64_reason(std::string_view name);

[[nodiscard]] kernel_events::ReasonNames kernels_reason_names();

}  // namespace trapline::trace_text
