// The symbol files of a uftrace data directory: <name>.sym, <name>.dbg and the map that places
// them. uftrace looks a name up by its offset from the start of the map line whose path has this
// basename.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "plugin/format/map.h"
#include "plugin/format/symbol_table.h"

namespace trapline {

struct PlacedSymbols {
  const SymbolFile* file = nullptr;
  std::uint64_t offset = 0;  // added to the file's addresses
  std::string prefix;        // put before every name
};

// The source line of a function, from the file's DWARF.
struct SourceLine {
  std::uint64_t address = 0;  // address in the file
  std::string file;
  unsigned line = 0;
};
[[nodiscard]] Result<std::vector<SourceLine>> read_source_lines(const SymbolFile& file);

struct DirectoryFile {
  std::string name;
  std::string text;
};

// The directory's symbol files for the given binaries, in memory: one .sym (and .dbg, when
// `with_lines`) for each run of code, and the map lines for them. A binary whose code is in several
// places (a kernel and its modules) becomes several .sym files. Two places that overlap when their
// addresses are cut to 48 bits are an error.
struct SymbolFiles {
  std::vector<DirectoryFile> files;
  std::vector<MapLine> map;
};
[[nodiscard]] Result<SymbolFiles> format_symbol_files(const std::vector<PlacedSymbols>& placed,
                                                      bool with_lines);

// Returns a name that uftrace and flame graphs accept: without ';' and control characters.
[[nodiscard]] std::string flat_name(std::string_view name);

}  // namespace trapline
