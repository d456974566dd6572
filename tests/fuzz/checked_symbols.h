// Holds what was read of a symbol file to what its header promises.
#pragma once

#include "plugin/format/symbol_table.h"
#include "tests/fuzz/checked_pipeline.h"

namespace trapline::fuzz {

inline void check_symbols(const SymbolFile& file) {
  std::uint64_t last = 0;
  for (const Symbol& symbol : file.symbols) {
    hold(symbol.size != 0, "a function has no size");
    hold(&symbol == file.symbols.data() || symbol.address > last, "functions are not in order");
    last = symbol.address;
  }
  for (const std::uint64_t offset :
       {std::uint64_t{0}, std::uint64_t{0x1000}, ~std::uint64_t{0xfff}}) {
    SymbolTable table;
    table.add(file, offset);
    table.build();
    for (const Symbol& symbol : file.symbols) {
      const Symbol* found = table.find(symbol.address + offset);
      hold(found == nullptr || symbol.address + offset - found->address < found->size,
           "a function does not hold its address");
    }
  }
  if (!file.symbols.empty()) (void)file.by_name(file.symbols.front().name);
}

}  // namespace trapline::fuzz
