// The files of the program that qemu-user runs, and where they lie in the program's own addresses.
//
// QEMU shares its address space with the program: /proc/self/maps shows the files of both, at the
// host's addresses, which are the program's plus a base. QEMU maps a program's code without the
// right to execute it, for it runs translated; of a file that the host itself executes a part is
// executable. Before its first instruction the program is at the entry of its loader, or its own:
// that gives the base.
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
  std::uint64_t base = 0;  // host addresses less the program's
};

// `maps`: the text of /proc/self/maps; `words`: QEMU's command line, which names the program; `pc`:
// where it is before its first instruction. Nothing where these do not agree.
[[nodiscard]] std::optional<GuestProgram> find_guest_program(std::string_view maps,
                                                             std::span<const std::string> words,
                                                             std::uint64_t pc);

// The ELF files (64 bits, little-endian) in `maps` that are the program's.
[[nodiscard]] std::vector<SymbolFileSpec> files_of_program(std::string_view maps,
                                                           std::uint64_t base);

}  // namespace trapline
