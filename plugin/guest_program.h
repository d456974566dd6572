// Finds the files of the program that qemu-user runs, and their addresses in the program's own
// address space.
//
// QEMU shares its address space with the program: /proc/self/maps shows the files of both, at the
// host's addresses, which are the program's plus a base. QEMU maps the program's code without the
// right to execute it, because the code runs translated; a file that the host executes has an
// executable part. Before its first instruction, the program's pc is the entry of its loader or of
// the program itself, which gives the base.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/format/symbol_table.h"

namespace trapline {

struct GuestProgram {
  SymbolFileSpec file;
  std::uint64_t base = 0;  // host addresses minus the program's addresses
};

// Finds the program. `maps`: the text of /proc/self/maps; `words`: QEMU's command line, which names
// the program; `pc`: the program's pc before its first instruction. Returns nullopt if these do not
// agree.
[[nodiscard]] std::optional<GuestProgram> find_guest_program(std::string_view maps,
                                                             std::span<const std::string> words,
                                                             std::uint64_t pc);

// Returns the program's ELF files (64 bits, little-endian) among those in `maps`.
[[nodiscard]] std::vector<SymbolFileSpec> files_of_program(std::string_view maps,
                                                           std::uint64_t base);

}  // namespace trapline
