#include "plugin/guest.h"

#include <algorithm>
#include <cstring>

namespace trapline {
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

qemu::RegisterHandle* Registers::handle(std::string_view names) const {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    const auto found = handles_.find(std::string(names.substr(0, end)));
    if (found != handles_.end()) return found->second;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return nullptr;
}

// Reads a register. The meaning of the return value changed with API 6, so only the bytes in the
// buffer count.
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
  const auto bind_all = [this](std::span<const std::string_view> names, auto& to) {
    for (std::size_t i = 0; i < names.size() && i < to.size(); ++i)
      to[i] = registers_.handle(names[i]);
  };
  stack_pointer_ = registers_.handle(arch_.stack_pointer);
  frame_pointer_ = registers_.handle(arch_.frame_pointer);
  address_space_ = registers_.handle(arch_.address_space);
  link_ = registers_.handle(arch_.link);
  bind_all(arch_.general, general_);
  bind_all(arch_.state, state_);
}

std::optional<std::uint64_t> Guest::state(std::size_t index) {
  std::uint64_t value = 0;
  if (index >= state_.size() || !registers_.read(state_[index], value)) return std::nullopt;
  return value;
}

std::uint64_t Guest::address_space() {
  return registers_.value(address_space_) & arch_.address_space_mask;
}

std::uint64_t Guest::general(unsigned index) {
  return index < general_.size() ? registers_.value(general_[index]) : 0;
}

int Guest::interrupted_level_at(std::uint64_t stack_pointer) {
  return arch_.interrupted_level != nullptr ? arch_.interrupted_level(*this, stack_pointer) : -1;
}

std::uint64_t Guest::return_address(std::uint64_t stack_pointer) {
  if (!arch_.link.empty()) return link();
  std::uint64_t address = 0;
  (void)read_memory(stack_pointer, &address, sizeof address);
  return address;
}

}  // namespace trapline
