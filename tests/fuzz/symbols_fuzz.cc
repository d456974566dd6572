// Symbols as text (System.map, kallsyms, .sym files), the table that is made of them, and the files
// that are written of it.
#include "backend_ftrace/base/worker.h"
#include "plugin/format/symbol_writer.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_symbols.h"
#include "tests/fuzz/input_files.h"

namespace {

using namespace trapline;

void read_symbols(const std::string& path) {
  const auto file = load_symbol_file(path);
  if (!file) return;
  fuzz::check_symbols(*file);
  const PlacedSymbols placed[] = {{&*file, 0, ""}};
  (void)format_symbol_files({placed, placed + 1}, false);
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
