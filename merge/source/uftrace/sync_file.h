// sync.txt of a uftrace data directory that the plugin wrote: the clock of its records, and sync
// records with their stamps on it. docs/formats/sync.md.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/sync.h"

namespace trapline {

struct StampedSyncs {
  std::string clock;  // empty: the file does not say
  std::vector<std::pair<std::uint64_t, SyncRecord>> records;
};

// Lines that are no sync record are passed over. Nothing, without an error, where there is no such
// file. At most kMostSyncRecords are kept.
inline constexpr std::size_t kMostSyncRecords = 1u << 20;
[[nodiscard]] Result<StampedSyncs> read_stamped_syncs(const std::string& path);

}  // namespace trapline
