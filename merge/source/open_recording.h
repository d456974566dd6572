// Opens recordings as sources, and recognises texts. The file of each source describes its format.
// trace_dat/trace_dat_source.h and qemu_log/qemu_log_source.h have what opens the others.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"
#include "merge/source/file.h"
#include "merge/source/source.h"

namespace trapline {
namespace perf_data {
struct Files;
}

// Opens a perf.data. Errors: those of perf_data::read_layout.
[[nodiscard]] Result<std::unique_ptr<Source>> open_perf_data(perf_data::Files files);

// Opens a uftrace data directory. Its clock is "mono", "boot", "real" or "tsc": the one in
// sync.txt; else --clock of the recorded command line; else real if the times are after 2001, as
// QEMU's own plugin writes them; else mono.
[[nodiscard]] Result<std::unique_ptr<Source>> open_uftrace(const std::string& path);

// Opens a simpletrace file. `events_path` is the trace-events-all of the program that wrote it.
[[nodiscard]] Result<std::unique_ptr<Source>> open_simpletrace(File file,
                                                               const std::string& events_path);

// Returns whether the text has a line of a trace.
[[nodiscard]] bool has_trace_line(std::string_view text);
// Opens a text. `unit` is the unit of times without a fraction, "ns" or "cycles"; empty: a line
// about the clock gives it. Errors: no line of the file is part of a trace (with the forms that can
// be read); nothing gives the unit.
[[nodiscard]] Result<std::unique_ptr<Source>> open_trace_text(File file, std::string_view unit);

// Returns the Error for a text or archive that is known not to be a recording; nullopt for other
// files. `head`: the first bytes of the file.
[[nodiscard]] std::optional<Error> refusal_of(const std::string& path, std::string_view head);

}  // namespace trapline
