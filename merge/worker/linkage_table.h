// Names the entries of the procedure linkage table of a dynamically linked file. A program calls
// the functions of other files through these entries, which have no symbols. Each gets the name of
// the function that its relocation binds to it.
#pragma once

#include <libelf.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace trapline::worker {

struct LinkageEntry {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t limit = 0;  // end of its section
  std::string_view name;    // in the file
};

// Returns the entries of x86-64 and AArch64 files; none for others.
[[nodiscard]] std::vector<LinkageEntry> linkage_entries(Elf* elf);

}  // namespace trapline::worker
