// A simpletrace file, versions 2 to 4 or as the RFC had it, in either byte order, through the
// pipeline; and what its own lines say of each record.
#include "backend_ftrace/simpletrace/reader.h"
#include "merge/source/open_recording.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/declared_events.h"
#include "tests/fuzz/input_files.h"
#include "tests/support/open_by_path.h"

namespace {

using namespace trapline;

void print(const std::string& path) {
  static const auto declared = tracetool::parse_trace_events(fuzz::kDeclarations, "fuzz");
  auto reader = simpletrace::Reader::open(path, declared);
  if (!reader) return;
  simpletrace::Record record;
  std::optional<std::uint64_t> previous;
  while (reader->next(record).value_or(false)) {
    if (!record.dropped) (void)simpletrace::line_of(record, previous);
    previous = record.timestamp;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFile file, declarations;
  declarations.fill(fuzz::kDeclarations);
  file.fill(fuzz::text_of(data, size));
  fuzz::bounded(size, [] {
    print(file.path());
    auto source = open_simpletrace(file.path(), declarations.path());
    if (source)
      (void)fuzz::read_all(std::move(*source), fuzz::Times::kInOrder, fuzz::declared_events());
  });
  return 0;
}
