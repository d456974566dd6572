// The procedure linkage table of a dynamically linked file: a program calls the functions of other
// files at its entries, which no symbol names. Each takes the name of the function that its
// relocation binds to it.
#pragma once

#include <libelf.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace trapline::worker {

struct LinkageEntry {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t limit = 0;  // its section's end
  std::string_view name;    // in the file
};

// Of x86-64 and AArch64 files; of others none.
[[nodiscard]] std::vector<LinkageEntry> linkage_entries(Elf* elf);

}  // namespace trapline::worker
