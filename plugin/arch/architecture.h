// All that differs from one guest architecture to the next. Each is a constant in a file of its
// own, architectures.cc has the table; nothing else in the plugin knows any of them by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backend_ftrace/guest_sync.h"
#include "plugin/arch/decode.h"

namespace trapline {

// Where an architecture's own functions look: registers by their place in Architecture::state.
class ArchState {
 public:
  virtual ~ArchState() = default;
  // Nothing where QEMU has no such register.
  virtual std::optional<std::uint64_t> state(std::size_t index) = 0;
  virtual bool read_memory(std::uint64_t address, void* to, std::size_t size) = 0;
  [[nodiscard]] std::uint64_t value(std::size_t index) { return state(index).value_or(0); }
};

// Names of registers are QEMU's; "fp s0" is fp, or s0 where there is no fp.
//
// A level is the processor's privilege level, 0 to 3, plus 4 or 8 for another world that has the
// same privileges (real mode; secure state, realms); it is part of the identity of stacks and
// blocks.
struct Architecture {
  std::string_view name = {};  // QEMU's of the target
  Instruction (*decode)(std::span<const std::uint8_t> bytes, std::uint64_t pc) = nullptr;

  std::string_view program_counter = {};
  std::string_view stack_pointer = {};
  std::string_view frame_pointer = {};
  std::string_view address_space = {};                   // the page table's register
  std::uint64_t address_space_mask = ~std::uint64_t{0};  // without what is no address in it
  std::string_view link = {};                            // empty: calls push the return address
  std::span<const std::string_view> general = {};        // by Instruction::reg
  std::span<const std::string_view> state = {};          // for the functions below

  bool higher_level_is_user = false;
  unsigned (*level)(ArchState& state) = nullptr;
  std::string (*level_name)(unsigned level) = nullptr;
  // Whether a block here is where the hardware enters a handler. Null: the stack tells, as follows.
  bool (*is_vector)(ArchState& state, std::uint64_t address) = nullptr;
  // The level that the frame at the stack pointer came from, which the hardware pushes for a
  // handler; -1: there is no such frame. Null: the hardware pushes none.
  int (*interrupted_level)(ArchState& state, std::uint64_t stack_pointer) = nullptr;
  // A handler's labels begin at most this far from where it was entered, all of one frame.
  std::uint64_t handler_reach = 0;

  // The saved frame pointer, with the return address after it, lies this far from where the frame
  // pointer points.
  std::int64_t saved_pair = 0;
  // Symbols that are jumped to in place of a return: no functions of the guest's.
  std::span<const std::string_view> return_thunks = {};

  // System calls after which another program runs in the process; empty: programs that qemu-user
  // runs are not recorded.
  std::span<const std::int64_t> exec_calls = {};

  // The magic no-op of docs/plugin.md: its arguments, as indices of `general`, and the counter.
  std::span<const std::uint8_t> operands = {};
  GuestCounter counter = GuestCounter::kTsc;
};

// Null when the architecture is not known.
[[nodiscard]] const Architecture* architecture(std::string_view qemu_target);
// "x86_64, i386, …".
[[nodiscard]] std::string known_architectures();

}  // namespace trapline
