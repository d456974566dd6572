// Decodes, at translation, how one guest instruction changes the call stack.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace trapline {

enum class Flow : std::uint8_t {
  kOther,
  kCall,          // to `target`
  kNearCall,      // to `target` if a function is known to start there; otherwise not a call
  kCallRegister,  // to the address in register `reg` (plus `offset`)
  kCallMemory,    // to the address that the instruction reads from memory
  kCallFar,  // x86: to `target` or, if that is 0, to the address that it reads; pushes two words
  kReturn,
  kReturnFar,     // x86: reads two words
  kSystemCall,    // enters a more privileged level, through the hardware's own entry point
  kSystemReturn,  // returns to a less privileged level; no frame of this stack stays open
  kInterruptReturn,
  kSaveReturnAddress,  // stores the link register on the stack, which shows where the frame is
  kSetStackPointer,    // may move to another stack or discard frames
  kSync,               // the magic no-op of docs/plugin.md: clock readings in registers
};

struct Instruction {
  Flow flow = Flow::kOther;
  std::uint8_t reg = 0;  // index of the architecture's general registers
  std::int32_t offset = 0;
  std::uint64_t target = 0;
};

}  // namespace trapline
