// x86 in every mode, x86_64 and i386: 64-bit code and the 16- and 32-bit code of firmware. QEMU
// gives the length of the instruction, so the width of an operand follows from the bytes that are
// left.
#include <algorithm>
#include <array>

#include "backend_ftrace/base/result.h"
#include "plugin/arch/architecture.h"

namespace trapline {
namespace {

// nop dword ptr [rax + rax + "TRLN"]
constexpr std::array<std::uint8_t, 8> kSyncNoop{0x0f, 0x1f, 0x84, 0x00, 'T', 'R', 'L', 'N'};

// A call to an address this near after itself usually only pushes an address to read or overwrite
// (position-independent code, retpolines, filling of the return stack buffer): kNearCall.
constexpr std::uint64_t kNearCallReach = 16;

bool is_prefix(std::uint8_t byte) {
  switch (byte) {
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x64:
    case 0x65:  // segment override, notrack
    case 0x66:
    case 0x67:
    case 0xf0:
    case 0xf2:
    case 0xf3:  // operand and address size, lock, bnd, rep
      return true;
    default:
      return false;
  }
}

std::uint64_t relative_target(std::span<const std::uint8_t> operand, std::uint64_t next) {
  if (operand.size() == 2) {
    const auto value = static_cast<std::uint16_t>(operand[0] | operand[1] << 8);
    return next + static_cast<std::uint64_t>(static_cast<std::int16_t>(value));
  }
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | operand[i];
  return next + static_cast<std::uint64_t>(static_cast<std::int32_t>(value));
}

Instruction group_ff(std::uint8_t modrm, std::uint8_t rex) {
  const unsigned operation = modrm >> 3 & 7;
  const bool is_register = (modrm & 0xc0) == 0xc0;
  Instruction out;
  if (operation == 2) {
    out.flow = is_register ? Flow::kCallRegister : Flow::kCallMemory;
    out.reg = static_cast<std::uint8_t>((modrm & 7) | (rex & 1) << 3);
  } else if (operation == 3 && !is_register) {
    out.flow = Flow::kCallFar;
  }
  return out;
}

template <bool kHasRex>
Instruction decode(std::span<const std::uint8_t> bytes, std::uint64_t pc) {
  const std::uint64_t next = pc + bytes.size();
  std::size_t at = 0;
  std::uint8_t rex = 0;
  while (at < bytes.size() && is_prefix(bytes[at])) ++at;
  // In 32-bit code 0x40…0x4f are whole instructions, so one with more bytes after it is a REX
  // prefix.
  if (kHasRex && at + 1 < bytes.size() && (bytes[at] & 0xf0) == 0x40) rex = bytes[at++];
  if (at >= bytes.size()) return {};
  const auto rest = bytes.subspan(at + 1);
  Instruction out;
  switch (bytes[at]) {
    case 0xe8:
      if (rest.size() != 2 && rest.size() != 4) break;
      out.target = relative_target(rest, next);
      out.flow = out.target - next > kNearCallReach ? Flow::kCall : Flow::kNearCall;
      break;
    case 0xc3:
    case 0xc2:
      out.flow = Flow::kReturn;
      break;
    case 0xcb:
    case 0xca:
      out.flow = Flow::kReturnFar;
      break;
    case 0x9a:  // far, 16- and 32-bit code only: offset, segment
      if (rest.size() == 4)
        out.target = static_cast<std::uint64_t>(rest[0] | rest[1] << 8) +
                     (static_cast<std::uint64_t>(rest[2] | rest[3] << 8) << 4);
      else if (rest.size() == 6)
        out.target = static_cast<std::uint32_t>(rest[0] | rest[1] << 8 | rest[2] << 16) |
                     static_cast<std::uint64_t>(rest[3]) << 24;
      if (out.target != 0) out.flow = Flow::kCallFar;
      break;
    case 0xcf:
      out.flow = Flow::kInterruptReturn;
      break;
    case 0xff:
      if (!rest.empty()) out = group_ff(rest[0], rex);
      break;
    case 0x0f:
      if (rest.empty()) break;
      if (bytes.size() == kSyncNoop.size() &&
          std::equal(bytes.begin(), bytes.end(), kSyncNoop.begin()))
        out.flow = Flow::kSync;
      if (rest[0] == 0x05 || rest[0] == 0x34) out.flow = Flow::kSystemCall;
      if (rest[0] == 0x07 || rest[0] == 0x35) out.flow = Flow::kSystemReturn;
      break;
  }
  return out;
}

enum State : std::size_t { kCs, kCr0 };
constexpr std::string_view kState[] = {"cs", "cr0"};
constexpr unsigned kRealMode = 4;

unsigned level(ArchState& state) {
  return (state.value(kCr0) & 1) == 0 ? kRealMode : static_cast<unsigned>(state.value(kCs) & 3);
}

std::string level_name(unsigned level, LevelNames names) {
  if (level != kRealMode) return fmt::format("Ring{}", level);
  return names == LevelNames::kQemu ? "RealMode" : "Real";
}

// Finds the interrupted level in RIP, CS, RFLAGS, RSP, SS, which the processor pushes in 64-bit
// mode, with or without an error code.
int interrupted_level(ArchState& state, std::uint64_t stack_pointer) {
  std::uint64_t words[6];
  if (!state.read_memory(stack_pointer, words, sizeof words)) return -1;
  for (int first = 0; first < 2; ++first) {
    const std::uint64_t* frame = words + first;
    const bool selectors =
        (frame[1] & ~std::uint64_t{3}) != 0 && frame[1] <= 0xffff && frame[4] <= 0xffff;
    constexpr std::uint64_t kNeverSet = 0x8028;
    const bool flags = (frame[2] & 2) != 0 && (frame[2] & kNeverSet) == 0 && frame[2] < (1U << 22);
    if (selectors && flags) return static_cast<int>(frame[1] & 3);
  }
  return -1;
}

constexpr std::string_view kGeneral[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                         "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
constexpr std::string_view kGeneral32[] = {"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi"};
constexpr std::uint8_t kOperands[] = {7, 6, 2, 1, 8, 9};  // rdi rsi rdx rcx r8 r9
constexpr std::int64_t kExecCalls[] = {59, 322};          // execve, execveat
constexpr std::string_view kReturnThunks[] = {"__x86_return_thunk", "zen_untrain_ret",
                                              "srso_safe_ret", "srso_return_thunk",
                                              "retbleed_return_thunk"};

}  // namespace

extern constexpr Architecture kX86_64{
    .name = "x86_64",
    .decode = decode<true>,
    .program_counter = "rip",
    .stack_pointer = "rsp",
    .frame_pointer = "rbp",
    .address_space = "cr3",
    // Without the process-context identifier and its no-flush bit.
    .address_space_mask = ~std::uint64_t{0xfff} & ~(std::uint64_t{1} << 63),
    .general = kGeneral,
    .state = kState,
    .higher_level_is_user = true,
    .level = level,
    .level_name = level_name,
    .interrupted_level = interrupted_level,
    .handler_reach = 16,  // vector and error code
    .return_thunks = kReturnThunks,
    .exec_calls = kExecCalls,
    .operands = kOperands,
    .counter = GuestCounter::kTsc,
};

extern constexpr Architecture kI386{
    .name = "i386",
    .decode = decode<false>,
    .stack_pointer = "esp",
    .frame_pointer = "ebp",
    .address_space = kX86_64.address_space,
    .address_space_mask = kX86_64.address_space_mask,
    .general = kGeneral32,
    .state = kState,
    .higher_level_is_user = true,
    .level = level,
    .level_name = level_name,
    .interrupted_level = interrupted_level,
    .handler_reach = kX86_64.handler_reach,
    .return_thunks = kReturnThunks,
    .counter = GuestCounter::kTsc,
};

}  // namespace trapline
