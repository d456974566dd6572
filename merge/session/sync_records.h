// Where sync records are kept, and reading them: markers of a recording, sync.txt of a uftrace
// directory (session_json.h reads the `sync` list of a session.json). docs/formats/sync.md.
#pragma once

#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/clock/guest_syncs.h"
#include "merge/clock/sync_points.h"
#include "merge/source/source.h"

namespace trapline::clocks {

// Reads the source to its end. Damage ends the reading, not the answer: what came before holds.
[[nodiscard]] std::vector<SyncEntry> read_sync_markers(Source& source);

// A uftrace directory's sync.txt: the records' clock and the brackets on it. Lines that are no sync
// record are passed over. Nothing, without an error, where there is no such file.
struct SyncFile {
  std::string clock;  // empty: the file does not say
  std::vector<SyncEntry> entries;
};
[[nodiscard]] Result<SyncFile> read_sync_file(const std::string& path);

}  // namespace trapline::clocks

namespace trapline {

// A file with lines "STAMP RECORD" (the plugin's sync.txt) or "RECORD" (what `trapline sync`
// prints); other lines are passed over. Nothing where there is no such file. At most
// GuestBounds::kMaxRecords lines are kept.
[[nodiscard]] std::vector<GuestSyncLine> read_guest_sync_file(const std::string& path);

}  // namespace trapline
