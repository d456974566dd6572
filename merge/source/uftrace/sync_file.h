// sync.txt of a uftrace data directory that the plugin wrote, and what `trapline sync` prints in a
// guest: the clock of the records, who ran what, and sync records. docs/formats/sync.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/guest_sync.h"
#include "backend_ftrace/sync.h"
#include "merge/model/event.h"

namespace trapline {

inline constexpr std::size_t kMostSyncRecords = 1u << 20;
inline constexpr std::size_t kMostGuestSyncs = 1u << 16;  // as GuestBounds::kMaxRecords

struct SyncFile {
  std::string clock, run;                    // empty: the file does not say
  std::map<std::int32_t, ThreadId> threads;  // that ran the vCPUs: "# thread: cpu0 2130"
  std::vector<std::pair<std::uint64_t, SyncRecord>> records;  // with their stamps
  std::vector<GuestSyncLine> guest;
};

// Lines that are none of these are passed over, and records beyond the most that are kept. Empty,
// without an error, where there is no such file.
[[nodiscard]] Result<SyncFile> read_sync_file(const std::string& path);

}  // namespace trapline
