// The plugin's call tracker. The first byte says whether a guest lives lawfully, so that it knows
// what its records must be, or the host tells anything: tests/plugin/random_guest.h.
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"
#include "tests/plugin/random_guest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  trapline::fuzz::bounded(size, [&] {
    trapline::test::RandomGuest guest(trapline::fuzz::text_of(data, size).substr(1));
    const char* wrong = data[0] % 2 == 0 ? guest.live() : guest.live_lawlessly();
    if (wrong != nullptr) trapline::fuzz::broken(wrong);
  });
  return 0;
}
