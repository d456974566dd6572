// The VMMs that are known, one by one and together.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "merge/analyze/vmm/vmm_knowledge.h"

namespace trapline {

// Each of them; the first that knows a name is believed.
[[nodiscard]] std::span<const VmmKnowledge* const> vmms();
// All of them as one: a recording may hold several, and a marker does not say whose it is.
[[nodiscard]] const VmmKnowledge& any_vmm();

// any_vmm().vcpu_of_thread(): "CPU 3/KVM", "fc_vcpu 3", "vcpu3", "crosvm_vcpu3", "kvm-vcpu-3".
[[nodiscard]] std::int32_t vcpu_of_name(std::string_view comm);
// The requests of all VMMs.
[[nodiscard]] const std::vector<RequestSpec>& known_requests();

// What follows `prefix` when it is a decimal number and nothing comes after it, else kNoVcpu.
[[nodiscard]] std::int32_t number_after_prefix(std::string_view text, std::string_view prefix);

}  // namespace trapline
