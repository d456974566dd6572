// Opens what the user names, whatever it is: told by the file's first bytes or the folder's files,
// never by a name.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "merge/clock/alignment.h"
#include "merge/source/source.h"

namespace trapline {

// kGuestSync: what `trapline sync` printed, which is no recording and relates others.
enum class SourceKind : std::uint8_t {
  kTraceDat,
  kUftrace,
  kSimpletrace,
  kQemuLog,
  kGuestSync,
  kSession
};

struct SourceOptions {
  std::string trace_events = "/usr/share/qemu/trace-events-all";  // for simpletrace files
  std::optional<std::uint64_t> tsc_khz;                           // for trace.dat files
};

// An error says what the path is not.
[[nodiscard]] Result<SourceKind> kind_of_source(const std::string& path);

// The recordings of a session folder: trace.dat, uftrace.data, qemu.log, trace.bin, as far as they
// are there, and sync.txt with what `trapline sync` printed; anything else is its own part.
[[nodiscard]] Result<std::vector<std::string>> parts_of_source(const std::string& path);

// One recording; a session folder is refused: open its parts.
[[nodiscard]] Result<std::unique_ptr<Source>> open_source(const std::string& path,
                                                          const SourceOptions& options);

// What clocks::align() needs of a source. With `with_syncs` the sync records are gathered: a
// trace.dat is read to its end for them, unless the session.json beside it lists them.
[[nodiscard]] Result<clocks::SourceClock> clock_of_source(const std::string& path,
                                                          const SourceOptions& options,
                                                          bool with_syncs);

}  // namespace trapline
