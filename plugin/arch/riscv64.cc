// RV64GC: a call links to ra (x1) or t0 (x5), as the unprivileged specification's return-address
// stack hints say; a return jumps to one of them without linking.
#include "plugin/arch/architecture.h"

namespace trapline {
namespace {

constexpr std::uint32_t kSyncNoop = 0x54ca3013;  // sltiu zero, s4, 0x54c
constexpr unsigned kRa = 1;
constexpr unsigned kSp = 2;
constexpr unsigned kT0 = 5;

bool is_link(unsigned reg) { return reg == kRa || reg == kT0; }
unsigned bits(std::uint32_t word, unsigned from, unsigned count) {
  return word >> from & ((1U << count) - 1);
}

Instruction indirect(unsigned link, unsigned base, std::int32_t offset) {
  Instruction out;
  out.reg = static_cast<std::uint8_t>(base);
  out.offset = offset;
  if (is_link(link))
    out.flow = Flow::kCallRegister;
  else if (link == 0 && is_link(base))
    out.flow = Flow::kReturn;
  return out;
}

Instruction decode_compressed(std::uint32_t word) {
  const unsigned op = bits(word, 0, 2);
  const unsigned function = bits(word, 13, 3);
  const unsigned rd = bits(word, 7, 5);
  const unsigned rs2 = bits(word, 2, 5);
  Instruction out;
  if (op == 2 && function == 4) {
    const bool link = bits(word, 12, 1) != 0;
    if (rs2 == 0 && rd != 0) return indirect(link ? kRa : 0, rd, 0);        // c.jr, c.jalr
    if (rs2 != 0 && rd == kSp && !link) out.flow = Flow::kSetStackPointer;  // c.mv sp, rs2
  } else if (op == 2 && function == 7 && rs2 == kRa) {
    out.flow = Flow::kSaveReturnAddress;  // c.sdsp ra
  } else if (op == 2 && function == 3 && rd == kSp) {
    out.flow = Flow::kSetStackPointer;  // c.ldsp sp
  }
  return out;
}

std::int32_t jal_offset(std::uint32_t word) {
  const std::uint32_t value = bits(word, 31, 1) << 20 | bits(word, 12, 8) << 12 |
                              bits(word, 20, 1) << 11 | bits(word, 21, 10) << 1;
  return static_cast<std::int32_t>(value << 11) >> 11;
}

Instruction decode(std::span<const std::uint8_t> bytes, std::uint64_t pc) {
  if (bytes.size() == 2)
    return decode_compressed(static_cast<std::uint32_t>(bytes[0] | bytes[1] << 8));
  if (bytes.size() != 4) return {};
  std::uint32_t word = 0;  // little-endian, whatever the host's byte order
  for (std::size_t i = 4; i-- > 0;) word = word << 8 | bytes[i];
  const unsigned rd = bits(word, 7, 5);
  const unsigned rs1 = bits(word, 15, 5);
  Instruction out;
  if (word == kSyncNoop) {
    out.flow = Flow::kSync;
    return out;
  }
  switch (word & 0x7f) {
    case 0x6f:  // JAL
      if (!is_link(rd)) break;
      out.target = pc + static_cast<std::uint64_t>(std::int64_t{jal_offset(word)});
      if (out.target != pc + 4) out.flow = Flow::kCall;
      break;
    case 0x67:
      return indirect(rd, rs1, static_cast<std::int32_t>(word) >> 20);  // JALR
    case 0x23:                                                          // SD ra, offset(sp)
      if (bits(word, 12, 3) == 3 && rs1 == kSp && bits(word, 20, 5) == kRa)
        out.flow = Flow::kSaveReturnAddress;
      break;
    case 0x13:
    case 0x03:
    case 0x33:  // ADDI…, LD…, ADD…
      if (rd == kSp && ((word & 0x7f) == 0x03 || rs1 != kSp)) out.flow = Flow::kSetStackPointer;
      break;
    case 0x73:
      if (word == 0x00000073)
        out.flow = Flow::kSystemCall;  // ECALL
      else if (word == 0x10200073 || word == 0x30200073)
        out.flow = Flow::kInterruptReturn;  // SRET, MRET
      else if (rd == kSp && bits(word, 12, 3) != 0)
        out.flow = Flow::kSetStackPointer;  // CSRRW sp
      break;
  }
  return out;
}

enum State : std::size_t { kPriv, kFirstVector };
constexpr std::string_view kState[] = {"priv", "stvec", "mtvec"};

unsigned level(ArchState& state) { return static_cast<unsigned>(state.value(kPriv) & 3); }

std::string level_name(unsigned level, LevelNames) {
  return level == 0 ? "U" : level == 1 ? "S" : "M";
}

bool is_vector(ArchState& state, std::uint64_t address) {
  for (std::size_t i = kFirstVector; i < std::size(kState); ++i) {
    const std::uint64_t base = state.value(i);
    if (base == 0) continue;
    const std::uint64_t first = base & ~std::uint64_t{3};
    const bool one_for_each = (base & 3) == 1;
    if (address == first ||
        (one_for_each && address > first && address - first < 256 && address % 4 == 0))
      return true;
  }
  return false;
}

constexpr std::string_view kGeneral[] = {"zero", "ra", "sp",  "gp",  "tp", "t0", "t1", "t2",
                                         "fp",   "s1", "a0",  "a1",  "a2", "a3", "a4", "a5",
                                         "a6",   "a7", "s2",  "s3",  "s4", "s5", "s6", "s7",
                                         "s8",   "s9", "s10", "s11", "t3", "t4", "t5", "t6"};
constexpr std::uint8_t kOperands[] = {10, 11, 12, 13, 14, 15};  // a0 to a5

}  // namespace

extern constexpr Architecture kRiscv64{
    .name = "riscv64",
    .decode = decode,
    .stack_pointer = "sp",
    .frame_pointer = "fp s0",
    .address_space = "satp",
    .address_space_mask = (std::uint64_t{1} << 48) - 1,  // without the ASID
    .link = "ra",
    .general = kGeneral,
    .state = kState,
    .level = level,
    .level_name = level_name,
    .is_vector = is_vector,
    .saved_pair = -16,
    .operands = kOperands,
    .counter = GuestCounter::kTime,
};

}  // namespace trapline
