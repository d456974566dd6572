// What the plugin knows of the guest's architecture, and its registers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "plugin/arch/decode.h"
#include "plugin/call_tracker.h"
#include "plugin/qemu_api.h"

namespace trapline {

enum class ArchId : std::uint8_t { kX86, kAarch64, kRiscv64 };

struct Architecture {
  ArchId id = ArchId::kX86;
  std::string_view name;
  Instruction (*decode)(std::span<const std::uint8_t>, std::uint64_t pc) = nullptr;
  std::string_view stack_pointer;
  std::string_view frame_pointer;
  std::string_view address_space;
  std::string_view link;                      // empty: returns read the stack
  std::span<const std::string_view> general;  // by Instruction::reg
  bool higher_level_is_user = false;
  std::span<const std::uint8_t> operands;  // of the magic no-op, as indices of `general`
};

// Null when the architecture is not known.
[[nodiscard]] const Architecture* architecture(std::string_view qemu_target);

// What QEMU calls the registers, and their values. One per thread of use: reading goes through a
// buffer.
class Registers {
 public:
  explicit Registers(const qemu::Api& api) : api_(api), buffer_(api.byte_array_new()) {}
  // In vCPU context, once: the list of registers.
  void find_all();
  void share(const Registers& other) { handles_ = other.handles_; }
  [[nodiscard]] qemu::RegisterHandle* handle(std::string_view name) const;
  [[nodiscard]] bool read(qemu::RegisterHandle* handle, std::uint64_t& value);
  [[nodiscard]] std::uint64_t value(qemu::RegisterHandle* handle) {
    std::uint64_t value = 0;
    return read(handle, value) ? value : 0;
  }
  [[nodiscard]] bool read_memory(std::uint64_t address, void* to, std::size_t size);
  [[nodiscard]] bool known() const { return !handles_.empty(); }

 private:
  const qemu::Api& api_;
  qemu::ByteArray* buffer_;
  std::unordered_map<std::string, qemu::RegisterHandle*> handles_;
};

// The registers that matter, by role.
class Guest final : public GuestState {
 public:
  Guest(const Architecture& arch, const qemu::Api& api) : arch_(arch), registers_(api) {}
  void find_registers();
  void share(const Guest& other);
  [[nodiscard]] bool ready() const { return registers_.known(); }

  std::uint64_t stack_pointer() override { return registers_.value(stack_pointer_); }
  std::uint64_t frame_pointer() { return registers_.value(frame_pointer_); }
  std::uint64_t address_space() override;
  int interrupted_level_at(std::uint64_t stack_pointer) override;
  [[nodiscard]] std::uint64_t general(unsigned index);
  [[nodiscard]] std::uint64_t link() { return registers_.value(link_); }
  // x86: the ring, 4 in real mode; aarch64: EL, + 4 in secure state; riscv64: 0, 1, 3.
  [[nodiscard]] unsigned level();
  // Whether a block here is where the hardware enters a handler (not on x86).
  [[nodiscard]] bool is_vector(std::uint64_t address);
  [[nodiscard]] bool read_memory(std::uint64_t address, void* to, std::size_t size) {
    return registers_.read_memory(address, to, size);
  }

 private:
  void bind();

  const Architecture& arch_;
  Registers registers_;
  qemu::RegisterHandle* stack_pointer_ = nullptr;
  qemu::RegisterHandle* frame_pointer_ = nullptr;
  qemu::RegisterHandle* address_space_ = nullptr;
  qemu::RegisterHandle* link_ = nullptr;
  qemu::RegisterHandle* level_ = nullptr;    // cs, cpsr, priv
  qemu::RegisterHandle* control_ = nullptr;  // cr0, SCR_EL3
  std::array<qemu::RegisterHandle*, 3> vectors_{};
  std::array<qemu::RegisterHandle*, 32> general_{};
};

// "EL1", "S-EL1", "Ring3", "Real", "U", "S", "M".
[[nodiscard]] std::string level_name(const Architecture& arch, unsigned level);

}  // namespace trapline
