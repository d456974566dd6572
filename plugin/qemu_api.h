// The part of QEMU's plugin interface that Trapline uses, in our own declarations (API versions 2
// to 7, QEMU 9.0 to 11.x). No symbol of QEMU is needed at link time: load() finds the functions and
// leaves optional ones null. The arguments of callbacks changed with version 7 (the user's pointer
// instead of the plugin id), so both forms are declared.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trapline::qemu {

using PluginId = std::uint64_t;
struct Block;
struct Instruction;
struct RegisterHandle;

struct Info {
  const char* target_name;
  struct {
    int min;
    int cur;
  } version;
  bool system_emulation;
  struct {
    int smp_vcpus;
    int max_vcpus;
  } system;
};
static_assert(offsetof(Info, version) == 8 && offsetof(Info, system) == 20);

enum CallbackFlags : int { kNoRegisters = 0, kReadRegisters = 1 };
enum MemoryAccess : int { kRead = 1, kWrite = 2, kReadWrite = 3 };
enum Discontinuity : int { kInterrupt = 1, kException = 2, kHostCall = 4 };

// The public part of glib's array types.
struct ByteArray {
  std::uint8_t* data;
  unsigned length;
};
struct Array {
  char* data;
  unsigned length;
};
// 24 bytes up to API 5, 32 from API 6 on: step by g_array_get_element_size().
struct RegisterDescriptor {
  RegisterHandle* handle;
  const char* name;
  const char* feature;
};
struct MemoryValue {
  enum class Type : int { kU8, kU16, kU32, kU64, kU128 } type;
  union {
    std::uint8_t u8;
    std::uint16_t u16;
    std::uint32_t u32;
    std::uint64_t u64;
    struct {
      std::uint64_t low, high;
    } u128;
  } data;
  // Returns the value of an access of up to 64 bits. QEMU fills only the member of its size.
  [[nodiscard]] std::uint64_t narrow() const {
    switch (type) {
      case Type::kU8:
        return data.u8;
      case Type::kU16:
        return data.u16;
      case Type::kU32:
        return data.u32;
      case Type::kU64:
      case Type::kU128:
        break;
    }
    return data.u64;
  }
};
static_assert(sizeof(MemoryValue) == 24);

using VcpuDataCallback = void (*)(unsigned vcpu, void* data);
using MemoryCallback = void (*)(unsigned vcpu, std::uint32_t info, std::uint64_t address,
                                void* data);

struct Api {
  int version = 0;

  // Functions whose types differ between versions are untyped here; plugin.cc has wrappers that
  // call them.
  void* register_vcpu_init = nullptr;
  void* register_vcpu_exit = nullptr;
  void* register_vcpu_idle = nullptr;
  void* register_translation = nullptr;
  void* register_flush = nullptr;
  void* register_atexit = nullptr;
  void* register_discontinuity = nullptr;  // since QEMU 10.2
  void* register_syscall = nullptr;
  void* instruction_data = nullptr;

  void (*register_block)(Block*, VcpuDataCallback, CallbackFlags, void*) = nullptr;
  void (*register_instruction)(Instruction*, VcpuDataCallback, CallbackFlags, void*) = nullptr;
  void (*register_memory)(Instruction*, MemoryCallback, CallbackFlags, MemoryAccess,
                          void*) = nullptr;
  std::size_t (*block_size)(const Block*) = nullptr;
  std::uint64_t (*block_address)(const Block*) = nullptr;
  Instruction* (*block_instruction)(const Block*, std::size_t) = nullptr;
  std::size_t (*instruction_size)(const Instruction*) = nullptr;
  std::uint64_t (*instruction_address)(const Instruction*) = nullptr;
  bool (*is_store)(std::uint32_t) = nullptr;
  MemoryValue (*memory_value)(std::uint32_t) = nullptr;  // since QEMU 9.2
  Array* (*registers)() = nullptr;
  // Returns bool from API 6 on: ignore the result.
  int (*read_register)(RegisterHandle*, ByteArray*) = nullptr;
  bool (*read_memory)(std::uint64_t, ByteArray*, std::size_t) = nullptr;  // since QEMU 9.2

  ByteArray* (*byte_array_new)() = nullptr;
  ByteArray* (*byte_array_set_size)(ByteArray*, unsigned) = nullptr;
  unsigned (*array_element_size)(Array*) = nullptr;
  char* (*array_free)(Array*, int) = nullptr;

  // Finds all functions. Returns null on success, else the name of a required one that is missing.
  const char* load();
  // Copies up to 16 bytes of the instruction. Returns how many.
  std::size_t read_instruction(const Instruction* instruction, std::uint8_t (&bytes)[16]) const;
};

// Returns QEMU's API version, from the functions that exist and, if they do not decide it, from
// QEMU's version string. 0 outside QEMU.
[[nodiscard]] int detect_version();

}  // namespace trapline::qemu
