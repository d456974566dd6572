// sync.txt of a uftrace data directory that the plugin wrote, and what `trapline sync` prints in a
// guest: the clock of the records, who ran what, and sync records. docs/formats/sync.md.
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

// What a uftrace data directory tells of itself.

// The value of --clock in a command line, empty without one.
[[nodiscard]] std::string clock_option(std::string_view cmdline);

// Data that uftrace replays and this does not.
[[nodiscard]] std::string left_out(const std::string& path, bool with_kernel);

// The time of a task's last record, where the last 16 bytes of its file are one.
[[nodiscard]] std::optional<std::uint64_t> last_record_time(const std::string& path);

// The vCPU of a task of the plugin's (contexts=vcpu or privilege), kNoVcpu for others.
[[nodiscard]] std::int32_t vcpu_of_task(std::uint32_t tid);

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
