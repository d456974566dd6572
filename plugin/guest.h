#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "plugin/arch/architecture.h"
#include "plugin/call_tracker.h"
#include "plugin/qemu_api.h"

namespace trapline {

// Reads the guest's registers by QEMU's names. Each thread needs an object of its own, since values
// are read through a buffer.
class Registers {
 public:
  explicit Registers(const qemu::Api& api) : api_(api), buffer_(api.byte_array_new()) {}
  // Lists the registers; call it once, in a vCPU's context.
  void find_all();
  void share(const Registers& other) { handles_ = other.handles_; }
  // Returns the first register that exists of the names, which blanks separate; null if none does.
  [[nodiscard]] qemu::RegisterHandle* handle(std::string_view names) const;
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

// Reads the registers that the plugin needs, by their role.
class Guest final : public GuestState, private ArchState {
 public:
  Guest(const Architecture& arch, const qemu::Api& api) : arch_(arch), registers_(api) {}
  void find_registers();
  void share(const Guest& other);
  [[nodiscard]] bool ready() const { return registers_.known(); }

  std::uint64_t stack_pointer() override { return registers_.value(stack_pointer_); }
  std::uint64_t program_counter() {
    return registers_.value(registers_.handle(arch_.program_counter));
  }
  std::uint64_t frame_pointer() { return registers_.value(frame_pointer_); }
  std::uint64_t address_space() override;
  int interrupted_level_at(std::uint64_t stack_pointer) override;
  std::uint64_t return_address(std::uint64_t stack_pointer) override;
  [[nodiscard]] std::uint64_t general(unsigned index);
  [[nodiscard]] std::uint64_t link() { return registers_.value(link_); }
  [[nodiscard]] unsigned level() { return arch_.level(*this); }
  // Returns whether the hardware enters a handler at this block, for architectures whose handlers
  // have known addresses.
  [[nodiscard]] bool is_vector(std::uint64_t address) {
    return arch_.is_vector != nullptr && arch_.is_vector(*this, address);
  }
  [[nodiscard]] bool read_memory(std::uint64_t address, void* to, std::size_t size) override {
    return registers_.read_memory(address, to, size);
  }

 private:
  void bind();
  std::optional<std::uint64_t> state(std::size_t index) override;

  const Architecture& arch_;
  Registers registers_;
  qemu::RegisterHandle* stack_pointer_ = nullptr;
  qemu::RegisterHandle* frame_pointer_ = nullptr;
  qemu::RegisterHandle* address_space_ = nullptr;
  qemu::RegisterHandle* link_ = nullptr;
  std::array<qemu::RegisterHandle*, 8> state_{};
  std::array<qemu::RegisterHandle*, 32> general_{};
};

}  // namespace trapline
