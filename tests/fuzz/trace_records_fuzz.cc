// A trace.dat by libtracecmd in the real worker, a process for each input: recordings of big-endian
// hosts, or with pages of other sizes, are read so. Whatever becomes of the worker, what it sent
// goes through the pipeline, and an error names the file.
#include "merge/source/trace_dat/trace_dat_source.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trapline;
  static const fuzz::MemoryFile file;
  file.fill(fuzz::text_of(data, size));
  fuzz::bounded(size, [] {
    trace_dat::Options options;
    options.use_libtracecmd = true;
    auto source = trace_dat::open_trace_dat(file.path(), options);
    if (source) {
      (void)fuzz::read_all(std::move(*source), fuzz::Times::kMayGoBack);
    } else {
      fuzz::hold(source.error().message.starts_with(file.path()),
                 "an error does not name its file");
    }
  });
  return 0;
}
