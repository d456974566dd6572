// The expression of --snapshot-on:
//
//   expression = ( "exit" [ "(" REASON ")" ] | "stall" ) ">" TIME
//   TIME       = digits [ "." digits ] ( "ns" | "us" | "ms" | "s" )
//
// An exit lasts from kvm_exit to the next kvm_entry of its thread. REASON is a name as `trapline
// report` prints it. Without it, every exit counts except halts (HLT, WFI), because a guest with
// nothing to do is not slow. A stall is a vCPU's stall as in `trapline stalls`; it counts as soon
// as it has lasted TIME.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"

namespace trapline::record {

struct Trigger {
  std::string text;    // as the user gave it
  bool stall = false;  // false: an exit
  std::string reason;  // empty: any but a halt
  std::size_t reason_column = 0;
  std::uint64_t longer_than_ns = 0;
};

// Parses an expression. Errors (kUsage) give the column, counted from 1, and what would be right.
[[nodiscard]] Result<Trigger> parse_trigger(std::string_view text);

// Returns an Error in parse_trigger()'s form, for example for a reason that the kernel lacks.
[[nodiscard]] tl::unexpected<Error> trigger_error(std::string_view text, std::size_t column,
                                                  std::string_view what);

}  // namespace trapline::record
