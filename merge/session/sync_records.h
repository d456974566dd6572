// Brackets of sync records by where those are kept: markers of a recording, sync.txt of a uftrace
// directory (session_json.h reads the `sync` list of a session.json). docs/formats/sync.md.
#pragma once

#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/clock/guest_syncs.h"
#include "merge/clock/sync_points.h"
#include "merge/source/source.h"
#include "merge/source/uftrace/sync_file.h"

namespace trapline::clocks {

// Reads the source to its end. Damage ends the reading, not the answer: what came before holds.
[[nodiscard]] std::vector<SyncEntry> read_sync_markers(Source& source);

// Those of a uftrace directory's sync.txt, on the clock of its records.
[[nodiscard]] std::vector<SyncEntry> brackets_of(const SyncFile& file);

}  // namespace trapline::clocks
