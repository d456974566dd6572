#include "plugin/qemu_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace trapline::qemu {
namespace {

void* symbol(const char* name) { return ::dlsym(RTLD_DEFAULT, name); }

template <typename T>
bool find(T& function, const char* name) {
  function = reinterpret_cast<T>(symbol(name));
  return function != nullptr;
}

// Finds "QEMU emulator version 11.1.3…" in the read-only data of the program that has the plugin
// functions. /proc/self/exe does not help: a dynamic loader may have started QEMU.
bool version_string(const void* function, int& major, int& minor) {
  Dl_info info{};
  if (::dladdr(function, &info) == 0 || info.dli_fbase == nullptr) return false;
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return false;
  constexpr char kText[] = "QEMU emulator version ";
  char line[4352];
  char program[4096] = "";
  bool found = false;
  while (!found && std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long long start = 0, end = 0;
    char protection[8] = "", path[4096] = "";
    if (std::sscanf(line, "%llx-%llx %7s %*s %*s %*s %4095[^\n]", &start, &end, protection, path) <
        3)
      continue;
    if (reinterpret_cast<unsigned long long>(info.dli_fbase) == start) std::strcpy(program, path);
    if (program[0] == '\0' || std::strcmp(path, program) != 0 || protection[0] != 'r' ||
        protection[1] == 'w')
      continue;
    const auto* data = reinterpret_cast<const char*>(start);
    const auto* hit =
        static_cast<const char*>(::memmem(data, end - start, kText, sizeof kText - 1));
    if (hit == nullptr || hit + sizeof kText + 16 > data + (end - start)) continue;
    found = std::sscanf(hit + sizeof kText - 1, "%d.%d", &major, &minor) == 2;
  }
  std::fclose(maps);
  return found;
}

}  // namespace

int detect_version() {
  void* scoreboard = symbol("qemu_plugin_scoreboard_new");
  if (scoreboard == nullptr) return 0;
  if (symbol("qemu_plugin_register_vcpu_tb_exec_cond_cb") == nullptr) return 2;
  if (symbol("qemu_plugin_mem_get_value") == nullptr) return 3;
  if (symbol("qemu_plugin_write_register") == nullptr) return 4;
  if (symbol("qemu_plugin_set_pc") == nullptr) return 5;
  int major = 0, minor = 0;
  if (!version_string(scoreboard, major, minor)) return 6;
  return major > 11 || (major == 11 && minor >= 1) ? 7 : 6;
}

const char* Api::load() {
  struct Wanted {
    bool found;
    const char* name;
  };
  const Wanted wanted[] = {
      {find(register_vcpu_init, "qemu_plugin_register_vcpu_init_cb"), "register_vcpu_init_cb"},
      {find(register_vcpu_exit, "qemu_plugin_register_vcpu_exit_cb"), "register_vcpu_exit_cb"},
      {find(register_vcpu_idle, "qemu_plugin_register_vcpu_idle_cb"), "register_vcpu_idle_cb"},
      {find(register_translation, "qemu_plugin_register_vcpu_tb_trans_cb"),
       "register_vcpu_tb_trans_cb"},
      {find(register_flush, "qemu_plugin_register_flush_cb"), "register_flush_cb"},
      {find(register_atexit, "qemu_plugin_register_atexit_cb"), "register_atexit_cb"},
      {find(register_block, "qemu_plugin_register_vcpu_tb_exec_cb"), "register_vcpu_tb_exec_cb"},
      {find(register_instruction, "qemu_plugin_register_vcpu_insn_exec_cb"),
       "register_vcpu_insn_exec_cb"},
      {find(register_memory, "qemu_plugin_register_vcpu_mem_cb"), "register_vcpu_mem_cb"},
      {find(block_size, "qemu_plugin_tb_n_insns"), "tb_n_insns"},
      {find(block_address, "qemu_plugin_tb_vaddr"), "tb_vaddr"},
      {find(block_instruction, "qemu_plugin_tb_get_insn"), "tb_get_insn"},
      {find(instruction_size, "qemu_plugin_insn_size"), "insn_size"},
      {find(instruction_address, "qemu_plugin_insn_vaddr"), "insn_vaddr"},
      {find(instruction_data, "qemu_plugin_insn_data"), "insn_data"},
      {find(is_store, "qemu_plugin_mem_is_store"), "mem_is_store"},
      {find(registers, "qemu_plugin_get_registers"), "get_registers"},
      {find(read_register, "qemu_plugin_read_register"), "read_register"},
      {find(byte_array_new, "g_byte_array_new"), "g_byte_array_new"},
      {find(byte_array_set_size, "g_byte_array_set_size"), "g_byte_array_set_size"},
      {find(array_element_size, "g_array_get_element_size"), "g_array_get_element_size"},
      {find(array_free, "g_array_free"), "g_array_free"},
  };
  find(register_discontinuity, "qemu_plugin_register_vcpu_discon_cb");
  find(register_syscall, "qemu_plugin_register_vcpu_syscall_cb");
  find(memory_value, "qemu_plugin_mem_get_value");
  find(read_memory, "qemu_plugin_read_memory_vaddr");
  for (const Wanted& one : wanted)
    if (!one.found) return one.name;
  return nullptr;
}

std::size_t Api::read_instruction(const Instruction* instruction, std::uint8_t (&bytes)[16]) const {
  const std::size_t size = std::min(instruction_size(instruction), sizeof bytes);
  if (version <= 2) {
    auto data = reinterpret_cast<const void* (*)(const Instruction*)>(instruction_data);
    std::memcpy(bytes, data(instruction), size);
    return size;
  }
  auto data =
      reinterpret_cast<std::size_t (*)(const Instruction*, void*, std::size_t)>(instruction_data);
  return data(instruction, bytes, size);
}

}  // namespace trapline::qemu
