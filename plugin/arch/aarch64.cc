// The aarch64 guest: A64 instructions, with those of pointer authentication.
#include "backend_ftrace/base/result.h"
#include "plugin/arch/architecture.h"

namespace trapline {
namespace {

constexpr std::uint32_t kSyncNoop = 0xf2ca899f;  // movk xzr, #0x544c, lsl #32
constexpr unsigned kLink = 30;
constexpr unsigned kStack = 31;

unsigned bits(std::uint32_t word, unsigned from, unsigned count) {
  return word >> from & ((1U << count) - 1);
}

// Decodes BR, BLR, RET, ERET and their authenticated forms: 1101011 opc[24:21] 11111 op3[15:10] Rn
// op4.
Instruction branch_register(std::uint32_t word) {
  Instruction out;
  out.reg = static_cast<std::uint8_t>(bits(word, 5, 5));
  switch (bits(word, 21, 4)) {
    case 0b0001:
    case 0b1001:
      out.flow = Flow::kCallRegister;
      break;  // BLR, BLRAA…
    case 0b0010:
      out.flow = Flow::kReturn;
      break;  // RET, RETAA, RETAB
    case 0b0100:
      out.flow = Flow::kInterruptReturn;
      break;  // ERET, ERETAA
  }
  return out;
}

// Returns whether the instruction stores x30 relative to sp: STP with x30 as either register, STR
// x30.
bool saves_link(std::uint32_t word) {
  if (bits(word, 5, 5) != kStack) return false;
  const bool pair = (word & 0xfe400000U) == 0xa8000000U && bits(word, 23, 2) != 0;  // STP, 64-bit
  if (pair) return bits(word, 0, 5) == kLink || bits(word, 10, 5) == kLink;
  const bool single = (word & 0xffc00000U) == 0xf9000000U ||  // STR x, [sp, #imm]
                      (word & 0xffe00000U) == 0xf8000000U;    // STR x, [sp, #imm]! and other modes
  return single && bits(word, 0, 5) == kLink;
}

// Returns whether the instruction is ADD/SUB (immediate or extended register) from another register
// into sp.
bool sets_stack_pointer(std::uint32_t word) {
  if (bits(word, 0, 5) != kStack) return false;
  const bool immediate = (word & 0xbf800000U) == 0x91000000U;
  const bool extended = (word & 0xbfe00000U) == 0x8b200000U;
  return (immediate || extended) && bits(word, 5, 5) != kStack;
}

Instruction decode(std::span<const std::uint8_t> bytes, std::uint64_t pc) {
  if (bytes.size() != 4) return {};
  std::uint32_t word = 0;  // little-endian, whatever the host's byte order
  for (std::size_t i = 4; i-- > 0;) word = word << 8 | bytes[i];
  Instruction out;
  if (word == kSyncNoop) {
    out.flow = Flow::kSync;
  } else if ((word & 0xfc000000U) == 0x94000000U) {  // BL
    const auto words = static_cast<std::int32_t>(word << 6) >> 6;
    out.target = pc + static_cast<std::uint64_t>(std::int64_t{words} * 4);
    if (out.target != pc + 4) out.flow = Flow::kCall;
  } else if ((word & 0xfe1f0000U) == 0xd61f0000U) {
    out = branch_register(word);
  } else if ((word & 0xffe0001fU) == 0xd4000001U || (word & 0xffe0001fU) == 0xd4000002U ||
             (word & 0xffe0001fU) == 0xd4000003U) {
    out.flow = Flow::kSystemCall;  // SVC, HVC, SMC
  } else if (saves_link(word)) {
    out.flow = Flow::kSaveReturnAddress;
  } else if (sets_stack_pointer(word)) {
    out.flow = Flow::kSetStackPointer;
  }
  return out;
}

enum State : std::size_t { kCpsr, kScrEl3, kFirstVector };
constexpr std::string_view kState[] = {"cpsr", "SCR_EL3", "VBAR_EL1 VBAR", "VBAR_EL2", "VBAR_EL3"};
constexpr unsigned kSecure = 4, kRealm = 8;

// Returns the level. SCR_EL3 gives the world of the levels below EL3: NS (bit 0) is 0 in the secure
// world, NSE (bit 62) is 1 in a realm. A processor without EL3 does not have this register.
unsigned level(ArchState& state) {
  const auto level = static_cast<unsigned>(state.value(kCpsr) >> 2 & 3);
  const auto control = state.state(kScrEl3);
  if (!control || level == 3) return level;
  if ((*control >> 62 & 1) != 0) return level + kRealm;
  return (*control & 1) == 0 ? level + kSecure : level;
}

std::string level_name(unsigned level, LevelNames names) {
  const bool qemu = names == LevelNames::kQemu;
  if (level >= kRealm) return fmt::format("{}-EL{}", qemu ? "R" : "Realm", level - kRealm);
  if (level >= kSecure) return fmt::format("S-EL{}", level - kSecure);
  return fmt::format("{}EL{}", qemu && level < 3 ? "NS-" : "", level);
}

bool is_vector(ArchState& state, std::uint64_t address) {
  if ((address & 0x7f) != 0) return false;
  for (std::size_t i = kFirstVector; i < std::size(kState); ++i)
    if (const auto base = state.state(i); base && address - *base < 0x800) return true;
  return false;
}

constexpr std::string_view kGeneral[] = {"x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",
                                         "x8",  "x9",  "x10", "x11", "x12", "x13", "x14", "x15",
                                         "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23",
                                         "x24", "x25", "x26", "x27", "x28", "x29", "x30"};
constexpr std::int64_t kExecCalls[] = {221, 281};  // execve, execveat
constexpr std::uint8_t kOperands[] = {0, 1, 2, 3, 4, 5};

}  // namespace

extern constexpr Architecture kAarch64{
    .name = "aarch64",
    .decode = decode,
    .program_counter = "pc",
    .stack_pointer = "sp",
    .frame_pointer = "x29",
    .address_space = "TTBR0_EL1",
    .address_space_mask = (std::uint64_t{1} << 48) - 1,  // without the ASID
    .link = "x30",
    .general = kGeneral,
    .state = kState,
    .level = level,
    .level_name = level_name,
    .is_vector = is_vector,
    .exec_calls = kExecCalls,
    .operands = kOperands,
    .counter = GuestCounter::kCntvct,
};

}  // namespace trapline
