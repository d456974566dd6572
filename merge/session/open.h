// Opens what the user names, whatever it is: told by the file's first bytes or the folder's files,
// never by a name.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend_ftrace/tracetool/trace_events.h"
#include "merge/clock/alignment.h"
#include "merge/session/collected_evidence.h"
#include "merge/source/source.h"
#include "merge/source/uftrace/sync_file.h"

namespace trapline {

// kGuestSync: what `trapline sync` printed, which is no recording and relates others.
enum class SourceKind : std::uint8_t {
  kTraceDat,
  kPerfData,
  kUftrace,
  kSimpletrace,
  kQemuLog,
  kTraceText,
  kGuestSync,
  kSession
};

// One thing to read, and what it is. A session's own parts are left out, with a note, where nothing
// aligns them; what was named is refused.
struct RecordingPart {
  std::string path;
  SourceKind kind = SourceKind::kTraceDat;
  bool named = true;
  bool marker_calls = true;  // false: a directory has those in trace_marker, and more
};

struct SourceOptions {
  std::string trace_events = tracetool::kInstalledTraceEvents;  // for simpletrace files
  std::optional<std::uint64_t> tsc_khz;                         // for trace.dat files
  std::string unit;  // "ns", "cycles": of a text whose times are whole numbers
};

// An error says what the path is not.
[[nodiscard]] Result<SourceKind> kind_of_source(const std::string& path);

// The recordings of a session folder: trace.dat, uftrace.data, qemu.log, trace.bin, as far as they
// are there, and sync.txt with what `trapline sync` printed; anything else is its own part.
[[nodiscard]] Result<std::vector<RecordingPart>> parts_of_source(const std::string& path);

// One recording; a session folder is refused: open its parts. A path's kind is looked for first.
[[nodiscard]] Result<std::unique_ptr<Source>> open_source(const RecordingPart& part,
                                                          const SourceOptions& options);
[[nodiscard]] Result<std::unique_ptr<Source>> open_source(const std::string& path,
                                                          const SourceOptions& options);

// The machine's name, empty where it has none of its own.
[[nodiscard]] std::string machine_name(const Description& is);

// Which boot it was recorded in: a session's own parts say so.
[[nodiscard]] clocks::Boot boot_of(const std::string& path);

// What clocks::align() needs of a source: what it says of itself, and with sync records and its
// interval what its evidence says. A uftrace directory keeps its sync records in sync.txt, a closed
// session those of its trace.dat in session.json.
[[nodiscard]] clocks::SourceClock clock_of(const Description& is);
// The brackets of a sync.txt, on the clock of its records.
[[nodiscard]] std::vector<clocks::SyncEntry> brackets_of(const SyncFile& file);
// Whether that needs no pass over the recording.
[[nodiscard]] Result<bool> add_known_evidence(const Source& source, clocks::SourceClock& clock);
void add_evidence(const CollectedEvidence& evidence, clocks::SourceClock& clock);

}  // namespace trapline
