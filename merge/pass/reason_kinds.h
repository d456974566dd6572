// Kinds of exits: Intel, AMD and ARM have names of their own for the same reason.
#pragma once

#include <span>
#include <string_view>

namespace trapline {

struct ReasonKind {
  std::string_view name, meaning;
  std::string_view reasons;  // the CPUs' names of the kind, "IO_INSTRUCTION, io"
};
// Returns all kinds, in the order in which `trapline help exits` explains them.
[[nodiscard]] std::span<const ReasonKind> reason_kinds();
// Returns the kind that includes the reason, whatever the case of its letters; nullptr: none does.
[[nodiscard]] const ReasonKind* kind_of(std::string_view reason);

}  // namespace trapline
