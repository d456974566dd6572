// A whole uftrace directory, through the pipeline: info, task.txt, map, symbols, records with their
// values, schedule events, functions of the kernel, sync records.
#include "merge/source/open_recording.h"
#include "merge/source/uftrace/sync_file.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trapline;
  // scripts/fuzz names a seed's files so, whatever they are called in its directory.
  static const std::vector<std::string> names = {
      "info",          "task.txt",      "sid-1.map",     "prog.sym",        "1.dat",    "2.dat",
      "perf-cpu0.dat", "perf-cpu1.dat", "kernel_header", "kernel-cpu0.dat", "kallsyms", "sync.txt"};
  static fuzz::MemoryFolder folder;
  folder.fill(fuzz::text_of(data, size), names);
  fuzz::bounded(size, [] {
    auto source = open_uftrace(folder.path());
    if (source) (void)fuzz::read_all(std::move(*source), fuzz::Times::kInOrder);
  });
  return 0;
}
