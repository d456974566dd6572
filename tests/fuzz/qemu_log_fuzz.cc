// A QEMU log with timestamps, through the pipeline.
#include "merge/source/qemu_log/qemu_log_source.h"
#include "tests/fuzz/text_target.h"
#include "tests/support/open_by_path.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trapline::fuzz::read_text_recording(
      data, size, [](const std::string& path) { return trapline::open_qemu_log(path); });
  return 0;
}
