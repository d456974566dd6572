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
  std::string prefix;        // before every name
};

// A source line of a function, from the file's DWARF.
struct SourceLine {
  std::uint64_t address = 0;  // as in the file
  std::string file;
  unsigned line = 0;
};
[[nodiscard]] Result<std::vector<SourceLine>> read_source_lines(const SymbolFile& file);

struct DirectoryFile {
  std::string name;
  std::string text;
};

// What belongs into the directory for these files, in memory: one .sym (and .dbg, when
// `with_lines`) for each run of code, and the map lines for them. A file whose code lies in several
// places (a kernel and its modules) becomes several. Two places that overlap after the cut to 48
// bits are an error.
struct SymbolFiles {
  std::vector<DirectoryFile> files;
  std::vector<MapLine> map;
};
[[nodiscard]] Result<SymbolFiles> format_symbol_files(const std::vector<PlacedSymbols>& placed,
                                                      bool with_lines);

// A name as uftrace and flame graphs take it: no ';', no control characters.
[[nodiscard]] std::string flat_name(std::string_view name);

}  // namespace trapline
