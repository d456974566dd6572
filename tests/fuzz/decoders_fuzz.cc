// The plugin's decoders: a guest's instructions, its registers and stack, the operands of its
// no-ops. The first byte chooses the architecture.
#include <cstring>

#include "backend_ftrace/guest_sync.h"
#include "plugin/arch/architecture.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace trapline;

// Registers and memory as the input has them; a guest may have none of either.
class GivenState : public ArchState {
 public:
  explicit GivenState(std::string_view bytes) : bytes_(bytes) {}
  std::optional<std::uint64_t> state(std::size_t index) override {
    std::uint64_t value = 0;
    if (bytes_.size() < 8 * (index + 1)) return std::nullopt;
    std::memcpy(&value, bytes_.data() + 8 * index, 8);
    return value;
  }
  bool read_memory(std::uint64_t address, void* to, std::size_t size) override {
    const std::size_t at = address % 64;
    if (bytes_.size() < at + size) return false;
    std::memcpy(to, bytes_.data() + at, size);
    return true;
  }

 private:
  std::string_view bytes_;
};

void decode_instruction(const Architecture& arch, std::span<const std::uint8_t> bytes) {
  constexpr std::uint64_t kHere = 0xffffffff81000000, kThere = 0x400000;
  const Instruction found = arch.decode(bytes, kHere);
  // A64's register 31 is always 0, which Guest::general() gives of a register beyond the last.
  fuzz::hold(found.flow != Flow::kCallRegister || found.reg <= arch.general.size(),
             "an instruction calls a register that is none");
  const Instruction elsewhere = arch.decode(bytes, kThere);
  fuzz::hold(elsewhere.flow == found.flow && elsewhere.reg == found.reg &&
                 elsewhere.offset == found.offset,
             "an instruction is another elsewhere");
  const bool near = found.flow == Flow::kCall || found.flow == Flow::kNearCall;
  fuzz::hold(!near || found.target - kHere == elsewhere.target - kThere,
             "a call's target does not move with it");
}

void decode(const Architecture& arch, std::string_view input) {
  for (std::size_t at = 0; at < input.size(); ++at) {
    // QEMU says where an instruction ends; of x86 any of these, of others 2 or 4.
    for (const std::size_t size : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 15u}) {
      if (size > input.size() - at) break;
      const std::vector<std::uint8_t> bytes(input.data() + at, input.data() + at + size);
      decode_instruction(arch, bytes);
    }
  }
  GivenState state(input);
  if (arch.level != nullptr) {
    const unsigned level = arch.level(state);
    fuzz::hold(level < 12, "a level that is none");  // EL0 to EL3, secure, realm
    (void)arch.level_name(level, LevelNames::kTrapline);
  }
  if (arch.is_vector != nullptr) {
    // Where it says that handlers begin, too.
    for (std::size_t i = 0; i < arch.state.size(); ++i)
      (void)arch.is_vector(state, state.value(i) & ~std::uint64_t{0x7f});
    (void)arch.is_vector(state, 0x1004);
  }
  if (arch.interrupted_level != nullptr) {
    const int level = arch.interrupted_level(state, 0);
    fuzz::hold(level >= -1 && level < 8, "an interrupted level that is none");
  }
  std::uint64_t operands[6] = {};
  std::memcpy(operands, input.data(), std::min(input.size(), sizeof operands));
  const auto record = guest_sync_of(operands, arch.counter);
  if (!record) return;
  const auto again = parse_guest_sync(format_guest_sync(*record));
  fuzz::hold(again && again->before == record->before && again->after == record->after,
             "a guest's sync record is not read as it was written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr const char* kTargets[] = {"x86_64", "i386", "aarch64", "riscv64", "none"};
  if (size == 0) return 0;
  const Architecture* arch = architecture(kTargets[data[0] % 5]);
  if (arch == nullptr) {
    fuzz::hold(data[0] % 5 == 4, "an architecture that is told of is not known");
    return 0;
  }
  fuzz::hold(known_architectures().find(arch->name) != std::string::npos, "one is not told of");
  const std::string_view input = fuzz::text_of(data, size).substr(1);
  fuzz::bounded(size, [&] { decode(*arch, input); });
  return 0;
}
