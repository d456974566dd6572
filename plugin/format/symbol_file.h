// The parts of the symbol file loader: each reader yields raw symbols, resolve() makes functions of
// them. Used by plugin/format only.
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

// Keeps names; views into it stay valid as long as it lives.
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
  std::uint64_t size = 0;   // 0: not given
  std::uint64_t limit = 0;  // it cannot reach further than this (its section's end)
  std::string_view name;    // kept in the arena
  char type = 'T';          // T t W i; anything else only ends the function before it
  bool typed = true;        // false: a bare label of assembly code
};

struct RawSymbols {
  std::vector<RawSymbol> symbols;
  std::vector<AddressRange> text;
  std::string build_id;
  std::string debug_path;
};

// Functions in address order, one per address, each with its extent.
[[nodiscard]] std::vector<Symbol> resolve_symbols(std::vector<RawSymbol> raw);
// Gives the C++ and Rust functions among them their names without parameters, by a worker. Those
// that it cannot tell, or not in time, keep their own; `path` for its messages.
[[nodiscard]] Result<void> demangle_symbols(std::vector<Symbol>& symbols, const std::string& path,
                                            NameArena& arena);

[[nodiscard]] bool is_elf(int fd);
[[nodiscard]] Result<RawSymbols> read_elf_symbols(int fd, const std::string& path,
                                                  NameArena& arena);
[[nodiscard]] Result<RawSymbols> read_text_symbols(int fd, const std::string& path,
                                                   NameArena& arena);

}  // namespace trapline
