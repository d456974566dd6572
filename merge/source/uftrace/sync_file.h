// Reads sync.txt of a uftrace data directory that the plugin wrote, and the output of `trapline
// sync` in a guest: the clock of the records, the threads of the vCPUs, and sync records.
// docs/formats/sync.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/guest_sync.h"
#include "backend_ftrace/sync.h"
#include "merge/model/event.h"

namespace trapline {

// Facts about a uftrace data directory.

// Returns the value of --clock in a command line; empty without one.
[[nodiscard]] std::string clock_option(std::string_view cmdline);

// Returns the names of the data files that uftrace would replay and trapline does not read, with
// commas between them. `with_kernel`: kernel-cpu*.dat are read.
[[nodiscard]] std::string left_out(const std::string& path, bool with_kernel);

// Returns the vCPU of one of the plugin's tasks (contexts=vcpu or privilege); kNoVcpu for others.
[[nodiscard]] std::int32_t vcpu_of_task(std::uint32_t tid);

inline constexpr std::size_t kMostSyncRecords = 1u << 20;
inline constexpr std::size_t kMostGuestSyncs = 1u << 16;  // same as GuestBounds::kMaxRecords

struct SyncFile {
  std::string clock, run;  // empty: not in the file
  // The threads that ran the vCPUs: "# thread: cpu0 2130".
  std::map<std::int32_t, ThreadId> threads;
  std::vector<std::pair<std::uint64_t, SyncRecord>> records;  // each with its line's stamp
  std::vector<GuestSyncLine> guest;
};

// Reads a sync.txt. Skips lines that are not sync records, and records beyond kMostSyncRecords and
// kMostGuestSyncs. Returns an empty SyncFile, not an Error, if there is no such file.
[[nodiscard]] Result<SyncFile> read_sync_file(const std::string& path);

}  // namespace trapline
