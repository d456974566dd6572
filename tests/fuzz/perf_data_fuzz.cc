// A perf.data, from its first byte to the spans: header or pipe, attrs, features, formats, records,
// compressed ones, order.
#include "merge/source/open_recording.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"
#include "tests/support/open_by_path.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trapline;
  static const fuzz::MemoryFile file;
  file.fill(fuzz::text_of(data, size));
  // Compressed records hold up to a thousand times their bytes.
  const bool compressed =
      fuzz::text_of(data, size).find("\x28\xb5\x2f\xfd") != std::string_view::npos;
  fuzz::bounded(compressed ? size * 64 : size, [] {
    auto source = open_perf_data(file.path());
    if (source) (void)fuzz::read_all(std::move(*source), fuzz::Times::kInOrder);
  });
  return 0;
}
