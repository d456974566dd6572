// A trace as text, through the pipeline.
#include "merge/session/open.h"
#include "merge/source/trace_text/trace_text_source.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/declared_events.h"
#include "tests/fuzz/input_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trapline;
  static const fuzz::MemoryFile file;
  file.fill(fuzz::text_of(data, size));
  fuzz::bounded(size, [] {
    (void)kind_of_source(file.path());
    auto source = open_trace_text(file.path());
    if (source)
      (void)fuzz::read_all(std::move(*source), fuzz::Times::kInOrder, fuzz::declared_events());
  });
  return 0;
}
