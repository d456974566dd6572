// A trace.dat, from its first byte to the spans: headers, options, sections, pages, chunks,
// formats, events. What is the worker's is left out: whole texts.
#include "merge/session/open.h"
#include "merge/source/trace_dat/trace_dat_source.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"
#include "tests/support/open_by_path.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trapline;
  static const fuzz::MemoryFile file;
  file.fill(fuzz::text_of(data, size));
  // Compressed pages hold up to a thousand times their bytes.
  const bool compressed = fuzz::text_of(data, size).find("zstd") != std::string_view::npos;
  fuzz::bounded(compressed ? size * 64 : size, [] {
    auto source = trace_dat::open_trace_dat(file.path(), {});
    if (source) (void)fuzz::read_all(std::move(*source), fuzz::Times::kMayGoBack);
  });
  return 0;
}
