// The C types that QEMU allows for the arguments of a trace event.
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

// Parses the words of a type, without const and in any order that C allows. Returns nullopt when
// they are not an integer type.
[[nodiscard]] std::optional<Integer> integer_type(const std::vector<std::string_view>& words);

// Returns whether QEMU allows the word in a type at all.
[[nodiscard]] bool allowed_word(std::string_view word);

// Returns the host's type for a tcg value that is known only at execution ("TCGv_i32" ->
// "uint32_t"); empty for any other word.
[[nodiscard]] std::string_view tcg_host_type(std::string_view word);

}  // namespace trapline::tracetool
