// Everything that differs between guest architectures. Each architecture is a constant in a file of
// its own and architectures.cc has the table; no other file of the plugin knows an architecture by
// name.
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

// Gives an architecture's functions the registers that Architecture::state lists, by index.
class ArchState {
 public:
  virtual ~ArchState() = default;
  // Returns nullopt if QEMU has no such register.
  virtual std::optional<std::uint64_t> state(std::size_t index) = 0;
  virtual bool read_memory(std::uint64_t address, void* to, std::size_t size) = 0;
  [[nodiscard]] std::uint64_t value(std::size_t index) { return state(index).value_or(0); }
};

// Names of privilege levels: ours (EL1, Real), or those of QEMU's own uftrace plugin (NS-EL1,
// RealMode).
enum class LevelNames : std::uint8_t { kTrapline, kQemu };

// Names of registers are QEMU's; "fp s0" is fp, or s0 where there is no fp.
//
// A level is the processor's privilege level, 0 to 3, plus 4 or 8 for another mode with the same
// privileges (x86's real mode; ARM's secure state and realms). The level is part of the identity of
// stacks and translated blocks.
struct Architecture {
  std::string_view name = {};  // QEMU's name of the target
  Instruction (*decode)(std::span<const std::uint8_t> bytes, std::uint64_t pc) = nullptr;

  std::string_view program_counter = {};
  std::string_view stack_pointer = {};
  std::string_view frame_pointer = {};
  std::string_view address_space = {};  // the register with the page table's address
  // Clears the bits of that register (address_space) that are not part of the address.
  std::uint64_t address_space_mask = ~std::uint64_t{0};
  std::string_view link = {};  // the link register; empty: calls push the return address
  std::span<const std::string_view> general = {};  // indexed by Instruction::reg
  std::span<const std::string_view> state = {};    // the registers that the functions below read

  bool higher_level_is_user = false;
  unsigned (*level)(ArchState& state) = nullptr;
  std::string (*level_name)(unsigned level, LevelNames names) = nullptr;
  // Returns whether the hardware enters a handler at this address. Null: interrupted_level tells.
  bool (*is_vector)(ArchState& state, std::uint64_t address) = nullptr;
  // Returns the level that was interrupted, from the frame that the hardware pushes for a handler,
  // if that frame is at the stack pointer; -1: there is no such frame. Null: the hardware pushes
  // none.
  int (*interrupted_level)(ArchState& state, std::uint64_t stack_pointer) = nullptr;
  // A label with a stack pointer at most this far above that of a handler's entry is the handler's.
  std::uint64_t handler_reach = 0;

  // Distance in bytes from the address in the frame pointer to the saved frame pointer, which the
  // return address follows.
  std::int64_t saved_pair = 0;
  // Symbols that the guest jumps to instead of returning; they do not count as functions.
  std::span<const std::string_view> return_thunks = {};

  // System calls that replace the program of a process; empty: programs under qemu-user are not
  // recorded.
  std::span<const std::int64_t> exec_calls = {};

  // The arguments of the magic no-op (docs/plugin.md), as indices of `general`, and the counter
  // that it reads.
  std::span<const std::uint8_t> operands = {};
  GuestCounter counter = GuestCounter::kTsc;
};

// Returns the architecture of a QEMU target; null if it is not known.
[[nodiscard]] const Architecture* architecture(std::string_view qemu_target);
// Returns "x86_64, i386, …".
[[nodiscard]] std::string known_architectures();

}  // namespace trapline
