// The parts of what the worker answers about a file, each with a library of its own.
#pragma once

#include <libelf.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/worker_message.h"

namespace trapline::worker {

// Answers with the demangled name of each mangled C++ or Rust name, without parameters; empty if it
// is neither, or if it stands for more text or work than a name is worth.
void demangle_names(MessageReader& request);

// Answers with the functions for which the file's DWARF has a source line (MessageKind::kLines).
void send_source_lines(Elf* elf);

// An entry of the procedure linkage table of a dynamically linked file. A program calls the
// functions of other files through such entries, which have no symbols. Each gets the name of the
// function that its relocation binds to it.
struct LinkageEntry {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t limit = 0;  // end address of the entry's section
  std::string_view name;    // points into the file's bytes
};

// Returns the procedure linkage table's entries; none for files not of x86-64 or AArch64.
[[nodiscard]] std::vector<LinkageEntry> linkage_entries(Elf* elf);

}  // namespace trapline::worker
