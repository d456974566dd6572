// Finds the function at an address, from the symbols of guest and host binaries.
//
// A symbol file is an ELF file (32 or 64 bit, either byte order; .symtab, else the separate debug
// file that its build-id or debug link names, else .dynsym), a kernel's System.map, a dump of
// /proc/kallsyms, or a uftrace .sym file (old and new form).
//
// A function covers its size, if the file gives one; else it extends to the next symbol, at most to
// the end of its section (in text files: of its module's last page). Of several names for one
// address, the table takes the name that a reader of the source would expect (typed before untyped,
// sized before sizeless, exported before local, fewer leading underscores first). An assembly label
// inside a sized function belongs to that function; NAME.cold and NAME.part.0, which GCC and LLVM
// split off NAME, belong to NAME.
//
// The content of a file is not trusted; an Error names the file and, in text, the line.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"

namespace trapline {

class NameArena;

// A function without a size ends with its page of this size, in bytes.
inline constexpr std::uint64_t kSymbolPage = 4096;

struct Symbol {
  std::uint64_t address = 0;
  std::uint64_t size = 0;         // in bytes; never 0 in a loaded file
  std::string_view name;          // demangled (C++ and Rust), without parameters
  std::string_view linkage_name;  // as in the file
  char type = 'T';                // as nm prints it: T t W i
  bool is_part = false;           // the compiler split this part off the function of that name
};

// Contains start but not end.
struct AddressRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  [[nodiscard]] bool contains(std::uint64_t address) const {
    return address >= start && address < end;
  }
};

// FILE[@OFFSET]: the offset is added to the file's addresses (KASLR, the load address of a
// position-independent executable) and may be negative (@-0x1000).
struct SymbolFileSpec {
  std::string path;
  std::uint64_t offset = 0;

  bool operator==(const SymbolFileSpec&) const = default;
};
[[nodiscard]] Result<SymbolFileSpec> parse_symbol_file_spec(std::string_view text);

// The functions of one file in ascending order, one per address, at the file's own addresses.
struct SymbolFile {
  std::string path;
  std::string debug_path;  // the separate debug file that provided the symbols, if any
  std::string build_id;    // hexadecimal; empty when there is none
  bool is_elf = false;
  std::vector<Symbol> symbols;
  std::vector<AddressRange> text;  // executable sections; in text files: runs of functions
  std::shared_ptr<const NameArena> names;

  // Finds the function with this name, demangled or as in the file; nullptr if there is none.
  [[nodiscard]] const Symbol* by_name(std::string_view name) const;
};
[[nodiscard]] Result<SymbolFile> load_symbol_file(const std::string& path);
// Returns whether load_symbol_file() would need a worker (backend_ftrace/base/worker.h) for this
// file.
[[nodiscard]] bool is_elf_file(const std::string& path);

// Immutable after build(), so several threads may look up at once. A lookup is one binary search in
// a vector of 8-byte addresses: build() flattens the functions into disjoint segments, in which an
// inner function (another file's, an overlap) hides the outer one.
class SymbolTable {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  SymbolTable() = default;
  void add(const SymbolFile& file, std::uint64_t offset = 0);  // call build() afterwards
  void build();

  // Loads all files and builds the table.
  [[nodiscard]] static Result<SymbolTable> load(std::span<const SymbolFileSpec> files);

  // Returns the function that contains the address, or nullptr; never the nearest one below.
  [[nodiscard]] const Symbol* find(std::uint64_t address) const {
    const std::uint32_t index = index_of(address);
    return index == kNone ? nullptr : &symbols_[index];
  }
  // Returns the number of the function that contains the address, below size(), or kNone. Callers
  // can use it as an index of a cache or an array.
  [[nodiscard]] std::uint32_t index_of(std::uint64_t address) const;
  [[nodiscard]] const Symbol& operator[](std::uint32_t index) const { return symbols_[index]; }
  [[nodiscard]] std::size_t size() const { return symbols_.size(); }
  [[nodiscard]] bool empty() const { return symbols_.empty(); }
  [[nodiscard]] std::span<const Symbol> symbols() const { return symbols_; }

 private:
  void emit(std::uint64_t start, std::uint32_t owner);

  // Start of each segment; a segment ends where the next one starts.
  std::vector<std::uint64_t> starts_;
  std::vector<std::uint32_t> owners_;  // the function of each segment; kNone for a gap
  std::vector<Symbol> symbols_;
  std::vector<std::shared_ptr<const NameArena>> names_;
};

}  // namespace trapline
