// The SDT probes of an ELF file, which trapline-stap reads.
#include "backend_ftrace/tracetool/sdt_notes.h"

#include "tests/fuzz/bounded.h"
#include "tests/fuzz/input_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trapline;
  static const fuzz::MemoryFile file;
  file.fill(fuzz::text_of(data, size));
  fuzz::bounded(size, [] { (void)tracetool::read_sdt_probes(file.path()); });
  return 0;
}
