// Opens what the user names. The kind is recognised by the file's first bytes or the folder's
// files, never by a name.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "merge/clock/alignment.h"
#include "merge/session/collected_evidence.h"
#include "merge/session/input.h"
#include "merge/source/file.h"
#include "merge/source/source.h"
#include "merge/source/uftrace/sync_file.h"

namespace trapline {

// kGuestSync: the output of `trapline sync`, which is not a recording but relates others.
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

// One recording to read, with its kind. If nothing aligns it, a part of a session that the user
// named is left out, with a note; for a recording that the user named, that is an Error.
struct RecordingPart {
  std::string path;
  SourceKind kind = SourceKind::kTraceDat;
  std::optional<File> file = {};  // stays open; nullopt: a folder
  bool named = true;
  bool marker_calls = true;  // false: skip calls in trace_marker, since a directory has them too
};

// Returns the recording or session at the path, opened. The Error says why none can be read there.
[[nodiscard]] Result<RecordingPart> recognise(const std::string& path);

// Returns the recordings of a session folder that exist: trace.dat, perf.data, uftrace.data,
// qemu.log, trace.bin, and sync.txt with the output of `trapline sync`. Any other path is its own
// part. Those in `open` are not opened again.
[[nodiscard]] Result<std::vector<RecordingPart>> parts_of_source(
    const std::string& path, std::span<const RecordingPart> open);

// Returns the source of one recording, by trace_events, tsc_khz and unit of `options`. A session
// folder is an Error: take its parts.
[[nodiscard]] Result<std::unique_ptr<Source>> open_source(const RecordingPart& part,
                                                          const InputOptions& options);
[[nodiscard]] Result<std::unique_ptr<Source>> open_source(const std::string& path,
                                                          const InputOptions& options);

// Returns the machine's name; empty if it has no name of its own.
[[nodiscard]] std::string machine_name(const Description& is);

// Returns the boot in which a recording was made; the parts of a session share one.
[[nodiscard]] clocks::Boot boot_of(const std::string& path);

// Returns what clocks::align() needs from a source: its own facts, without sync records and
// interval, which are evidence. A uftrace directory has its sync records in sync.txt, a closed
// session has those of its trace.dat in session.json.
[[nodiscard]] clocks::SourceClock clock_of(const Description& is);
// Returns the sync records of a sync.txt, with stamps on the clock of its directory's records.
[[nodiscard]] std::vector<clocks::SyncEntry> brackets_of(const SyncFile& file);
// Adds the evidence that is known without reading the recording. Returns whether that suffices.
[[nodiscard]] Result<bool> add_known_evidence(clocks::SourceClock& clock);
void add_evidence(const CollectedEvidence& evidence, clocks::SourceClock& clock);

}  // namespace trapline
