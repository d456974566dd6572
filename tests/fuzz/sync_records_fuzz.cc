// sync.txt of the plugin and what `trapline sync` printed, as files; the bounds made of them.
#include "merge/session/open.h"
#include "tests/fuzz/bounded.h"
#include "tests/fuzz/checked_pipeline.h"
#include "tests/fuzz/input_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trapline;
  static const fuzz::MemoryFile file;
  file.fill(fuzz::text_of(data, size));
  fuzz::bounded(size, [] {
    const SyncFile syncs = read_sync_file(file.path()).value_or(SyncFile());
    const std::vector<GuestSyncLine>& guest = syncs.guest;
    fuzz::hold(guest.size() <= GuestBounds::kMaxRecords, "more guest records than are kept");
    const auto brackets = brackets_of(syncs);
    std::uint64_t last = 0;
    for (const clocks::SyncEntry& entry : brackets) {
      fuzz::hold(entry.point.stamp >= last, "brackets are not in the order of their stamps");
      last = entry.point.stamp;
    }
    for (const char* clock : {"mono", "x86-tsc", "boot"}) {
      GuestBounds bounds(ClockId::kMono);
      (void)add_readings(bounds, guest, {clock, clock[0] == 'x'}, brackets);
    }
    (void)noted_in(guest);
  });
  return 0;
}
