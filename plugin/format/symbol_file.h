// The parts of the symbol file loader: readers of each kind of file return raw symbols, and
// resolve_symbols() makes functions of them. Only plugin/format uses this.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "plugin/format/symbol_table.h"

namespace trapline {

// Stores names; views of them stay valid as long as the arena lives.
class NameArena {
 public:
  std::string_view keep(std::string_view text);

 private:
  static constexpr std::size_t kBlock = 64 * 1024;
  std::deque<std::unique_ptr<char[]>> blocks_;
  std::size_t used_ = kBlock;
};

struct RawSymbol {
  std::uint64_t address = 0;
  std::uint64_t size = 0;   // 0: the file does not give a size
  std::uint64_t limit = 0;  // the function cannot extend beyond this address, its section's end
  std::string_view name;    // stored in the arena
  char type = 'T';          // T t W i; any other symbol only ends the function before it
  bool typed = true;        // false: a label of assembly code without a type
};

struct RawSymbols {
  std::vector<RawSymbol> symbols;
  std::vector<AddressRange> text;
  std::string build_id;
  std::string debug_path;
};

// Returns the functions in address order, one per address, each with its size.
[[nodiscard]] std::vector<Symbol> resolve_symbols(std::vector<RawSymbol> raw);
// Replaces the names of C++ and Rust functions by names without parameters, using a worker. A name
// that the worker cannot demangle, or not in time, stays; `path` is for messages.
[[nodiscard]] Result<void> demangle_symbols(std::vector<Symbol>& symbols, const std::string& path,
                                            NameArena& arena);

[[nodiscard]] bool is_elf(int fd);
[[nodiscard]] Result<RawSymbols> read_elf_symbols(int fd, const std::string& path,
                                                  NameArena& arena);
[[nodiscard]] Result<RawSymbols> read_text_symbols(int fd, const std::string& path,
                                                   NameArena& arena);

}  // namespace trapline
