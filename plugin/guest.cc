#include "plugin/guest.h"

#include <cstring>

#include "backend_ftrace/base/result.h"

namespace trapline {
namespace {

constexpr std::string_view kX86General[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                            "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
constexpr std::string_view kX86General32[] = {"eax", "ecx", "edx", "ebx",
                                              "esp", "ebp", "esi", "edi"};
constexpr std::string_view kArmGeneral[] = {"x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",  "x7",
                                            "x8",  "x9",  "x10", "x11", "x12", "x13", "x14", "x15",
                                            "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23",
                                            "x24", "x25", "x26", "x27", "x28", "x29", "x30"};
constexpr std::string_view kRiscvGeneral[] = {"zero", "ra", "sp",  "gp",  "tp", "t0", "t1", "t2",
                                              "fp",   "s1", "a0",  "a1",  "a2", "a3", "a4", "a5",
                                              "a6",   "a7", "s2",  "s3",  "s4", "s5", "s6", "s7",
                                              "s8",   "s9", "s10", "s11", "t3", "t4", "t5", "t6"};

constexpr std::uint8_t kX86Operands[] = {7, 6, 2, 1, 8, 9};  // rdi rsi rdx rcx r8 r9
constexpr std::uint8_t kArmOperands[] = {0, 1, 2, 3, 4, 5};
constexpr std::uint8_t kRiscvOperands[] = {10, 11, 12, 13, 14, 15};  // a0 to a5

constexpr Architecture kArchitectures[] = {
    {ArchId::kX86, "x86_64", decode_x86_64, "rsp", "rbp", "cr3", "", kX86General, true,
     kX86Operands},
    {ArchId::kX86, "i386", decode_x86_64, "esp", "ebp", "cr3", "", kX86General32, true, {}},
    {ArchId::kAarch64, "aarch64", decode_aarch64, "sp", "x29", "TTBR0_EL1", "x30", kArmGeneral,
     false, kArmOperands},
    {ArchId::kRiscv64, "riscv64", decode_riscv64, "sp", "fp", "satp", "ra", kRiscvGeneral, false,
     kRiscvOperands},
};

constexpr unsigned kRealMode = 4;
constexpr unsigned kSecure = 4;

}  // namespace

const Architecture* architecture(std::string_view qemu_target) {
  for (const Architecture& arch : kArchitectures)
    if (arch.name == qemu_target) return &arch;
  return nullptr;
}

void Registers::find_all() {
  qemu::Array* list = api_.registers();
  if (list == nullptr) return;
  const unsigned step = api_.array_element_size(list);
  for (unsigned i = 0; i < list->length; ++i) {
    qemu::RegisterDescriptor descriptor;
    std::memcpy(&descriptor, list->data + std::size_t{i} * step, sizeof descriptor);
    if (descriptor.name != nullptr) handles_.try_emplace(descriptor.name, descriptor.handle);
  }
  api_.array_free(list, 1);
}

qemu::RegisterHandle* Registers::handle(std::string_view name) const {
  const auto found = handles_.find(std::string(name));
  return found == handles_.end() ? nullptr : found->second;
}

// The return value changed its meaning with API 6; the bytes that arrived have not.
bool Registers::read(qemu::RegisterHandle* handle, std::uint64_t& value) {
  if (handle == nullptr) return false;
  api_.byte_array_set_size(buffer_, 0);
  api_.read_register(handle, buffer_);
  if (buffer_->length == 0) return false;
  value = 0;
  std::memcpy(&value, buffer_->data, buffer_->length < 8 ? buffer_->length : 8);
  return true;
}

bool Registers::read_memory(std::uint64_t address, void* to, std::size_t size) {
  if (api_.read_memory == nullptr) return false;
  api_.byte_array_set_size(buffer_, 0);
  if (!api_.read_memory(address, buffer_, size) || buffer_->length < size) return false;
  std::memcpy(to, buffer_->data, size);
  return true;
}

void Guest::find_registers() {
  registers_.find_all();
  bind();
}

void Guest::share(const Guest& other) {
  registers_.share(other.registers_);
  bind();
}

void Guest::bind() {
  const auto get = [this](std::string_view name) { return registers_.handle(name); };
  stack_pointer_ = get(arch_.stack_pointer);
  frame_pointer_ = get(arch_.frame_pointer);
  if (frame_pointer_ == nullptr) frame_pointer_ = get("s0");
  address_space_ = get(arch_.address_space);
  link_ = arch_.link.empty() ? nullptr : get(arch_.link);
  for (std::size_t i = 0; i < arch_.general.size() && i < general_.size(); ++i)
    general_[i] = get(arch_.general[i]);
  switch (arch_.id) {
    case ArchId::kX86:
      level_ = get("cs");
      control_ = get("cr0");
      break;
    case ArchId::kAarch64:
      level_ = get("cpsr");
      control_ = get("SCR_EL3");
      vectors_ = {get("VBAR_EL1"), get("VBAR_EL2"), get("VBAR_EL3")};
      if (vectors_[0] == nullptr) vectors_[0] = get("VBAR");
      break;
    case ArchId::kRiscv64:
      level_ = get("priv");
      vectors_ = {get("stvec"), get("mtvec"), nullptr};
      break;
  }
}

std::uint64_t Guest::address_space() {
  const std::uint64_t value = registers_.value(address_space_);
  // Not the ASID, nor x86's process-context identifier and its no-flush bit.
  return arch_.id == ArchId::kX86 ? value & ~std::uint64_t{0xfff} & ~(std::uint64_t{1} << 63)
                                  : value & ((std::uint64_t{1} << 48) - 1);
}

std::uint64_t Guest::general(unsigned index) {
  return index < general_.size() ? registers_.value(general_[index]) : 0;
}

unsigned Guest::level() {
  const std::uint64_t value = registers_.value(level_);
  switch (arch_.id) {
    case ArchId::kX86:
      return (registers_.value(control_) & 1) == 0 ? kRealMode : static_cast<unsigned>(value & 3);
    case ArchId::kAarch64: {
      const auto level = static_cast<unsigned>(value >> 2 & 3);
      const bool secure = control_ != nullptr && level < 3 && (registers_.value(control_) & 1) == 0;
      return secure ? level + kSecure : level;
    }
    case ArchId::kRiscv64:
      return static_cast<unsigned>(value & 3);
  }
  return 0;
}

bool Guest::is_vector(std::uint64_t address) {
  if (arch_.id == ArchId::kAarch64) {
    if ((address & 0x7f) != 0) return false;
    for (qemu::RegisterHandle* vector : vectors_) {
      std::uint64_t base = 0;
      if (registers_.read(vector, base) && address - base < 0x800) return true;
    }
  } else if (arch_.id == ArchId::kRiscv64) {
    for (qemu::RegisterHandle* vector : vectors_) {
      std::uint64_t base = 0;
      if (!registers_.read(vector, base) || base == 0) continue;
      const std::uint64_t first = base & ~std::uint64_t{3};
      if (address == first ||
          ((base & 3) == 1 && address > first && address - first < 256 && address % 4 == 0))
        return true;
    }
  }
  return false;
}

// RIP, CS, RFLAGS, RSP, SS as the processor pushes them in 64-bit mode, with an error code or
// without.
int Guest::interrupted_level_at(std::uint64_t stack_pointer) {
  std::uint64_t words[6];
  if (!read_memory(stack_pointer, words, sizeof words)) return -1;
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

std::string level_name(const Architecture& arch, unsigned level) {
  switch (arch.id) {
    case ArchId::kX86:
      return level == kRealMode ? "Real" : fmt::format("Ring{}", level);
    case ArchId::kAarch64:
      return level >= kSecure ? fmt::format("S-EL{}", level - kSecure) : fmt::format("EL{}", level);
    case ArchId::kRiscv64:
      return level == 0 ? "U" : level == 1 ? "S" : "M";
  }
  return {};
}

}  // namespace trapline
