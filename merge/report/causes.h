// What each class of waiting usually asks for: the table of docs/causes.md, word for word.
#pragma once

#include <span>
#include <string_view>

#include "merge/analyze/culprit.h"

namespace trapline {

struct Cause {
  std::string_view id;      // "preempted-by-thread"
  std::string_view advice;  // one sentence
  std::string_view source;  // where that is documented
};
[[nodiscard]] std::span<const Cause> causes();
[[nodiscard]] const Cause* find_cause(std::string_view id);

// The class of an exit's largest part; nullptr where nothing is known to help. `by_vcpu`: the
// culprit is a vCPU; `of_vmm`: it is a thread of a VM's process.
[[nodiscard]] const Cause* cause_of(Part part, const Culprit& culprit, bool by_vcpu, bool of_vmm);

}  // namespace trapline
