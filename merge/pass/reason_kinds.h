// Kinds of exits: one name for reasons that Intel, AMD, ARM and RISC-V each name differently.
#pragma once

#include <span>
#include <string_view>

namespace trapline {

struct ReasonKind {
  std::string_view name, meaning;
  std::string_view reasons;  // the CPUs' names of the kind's reasons: "IO_INSTRUCTION, io"
};
// Returns all kinds, in the order in which `trapline help exits` explains them.
[[nodiscard]] std::span<const ReasonKind> reason_kinds();
// Returns the kind that includes the reason, whatever the case of its letters; nullptr: none does.
[[nodiscard]] const ReasonKind* kind_of(std::string_view reason);

}  // namespace trapline
