// Symbols as text (System.map, kallsyms, .sym files), the table that is made of them, and the files
// that are written of it.
#include "backend_ftrace/base/worker.h"
#include "plugin/format/symbol_table.h"
#include "plugin/format/symbol_writer.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace trapline;

void read_symbols(const std::string& path) {
  const auto file = load_symbol_file(path);
  if (!file) return;
  std::uint64_t last = 0;
  for (const Symbol& symbol : file->symbols) {
    fuzz::hold(symbol.size != 0, "a function has no size");
    fuzz::hold(&symbol == file->symbols.data() || symbol.address > last,
               "functions are not in order");
    last = symbol.address;
  }
  for (const std::uint64_t offset :
       {std::uint64_t{0}, std::uint64_t{0x1000}, ~std::uint64_t{0xfff}}) {
    SymbolTable table;
    table.add(*file, offset);
    table.build();
    for (const Symbol& symbol : file->symbols) {
      const Symbol* found = table.find(symbol.address + offset);
      fuzz::hold(found == nullptr || symbol.address + offset - found->address < found->size,
                 "a function does not hold its address");
    }
  }
  const PlacedSymbols placed[] = {{&*file, 0, ""}};
  (void)format_symbol_files({placed, placed + 1}, false);
  if (!file->symbols.empty()) (void)file->by_name(file->symbols.front().name);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFile file;
  static const bool alone = (Worker::forbid("fuzzing"), true);
  (void)alone;
  file.fill(fuzz::text_of(data, size));
  fuzz::bounded(size, [] { read_symbols(file.path()); });
  return 0;
}
