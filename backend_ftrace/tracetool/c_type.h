// The C types that a trace event's arguments may have: those that QEMU allows.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "backend_ftrace/tracetool/trace_events.h"

namespace trapline::tracetool {

struct Integer {
  TypeKind kind;
  std::uint8_t bytes;
};

// A type's words without const, in any order that C takes; nothing when they are no integer.
[[nodiscard]] std::optional<Integer> integer_type(const std::vector<std::string_view>& words);

// Whether the word may stand in a type at all.
[[nodiscard]] bool allowed_word(std::string_view word);

// The host's type of a tcg value that is known only at execution ("TCGv_i32" -> "uint32_t"); empty
// for any other word.
[[nodiscard]] std::string_view tcg_host_type(std::string_view word);

}  // namespace trapline::tracetool
