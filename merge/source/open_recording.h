// Opens the recordings of each format but trace.dat (trace_dat/trace_dat_source.h) as sources, and
// recognises texts. The file of each source describes its format.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"
#include "merge/source/file.h"
#include "merge/source/perf_data/layout.h"
#include "merge/source/source.h"

namespace trapline {

// Opens a perf.data. Errors: those of perf_data::read_layout.
[[nodiscard]] Result<std::unique_ptr<Source>> open_perf_data(perf_data::Files files);

// Opens a uftrace data directory. Its clock is "mono", "boot", "real" or "tsc": the one in
// sync.txt; else --clock of the recorded command line; else real if the times are after 2001, as
// QEMU's own plugin writes them; else mono.
[[nodiscard]] Result<std::unique_ptr<Source>> open_uftrace(const std::string& path);

// Opens a simpletrace file. `events_path` is the trace-events-all of the program that wrote it.
[[nodiscard]] Result<std::unique_ptr<Source>> open_simpletrace(File file,
                                                               const std::string& events_path);

struct QemuLogLine {
  std::uint64_t at = 0;  // ns
  std::int32_t thread = 0;
  std::string_view text;
};
[[nodiscard]] std::optional<QemuLogLine> parse_qemu_log_line(std::string_view line);
[[nodiscard]] Result<std::unique_ptr<Source>> open_qemu_log(File file);

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
