// One format in which spans are written: a sink that also has finish().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "merge/analyze/guest_intervals.h"
#include "merge/analyze/pipeline.h"
#include "merge/export/output_file.h"
#include "merge/model/wall_clock.h"
#include "merge/pass/naming.h"
#include "merge/source/timeline.h"

namespace trapline {

// The values that ExportOptions::rows and weight may have, as help and messages list them.
[[nodiscard]] std::string rows_values();
inline constexpr std::string_view kWeightValues = "time, count, kernel, user, preempted, blocked";

struct ExportOptions {
  std::string format;           // a name of export_formats()
  std::string rows = "exits";   // rows of jsonl, arrays and csv
  std::string guest_span;       // which intervals of the guest; empty: none
  std::string weight = "time";  // the figure that folded stacks carry
  bool kernel = false;          // folded stacks of the kernel's time alone
  std::string host, session;    // the label columns of rows
  bool events = false;          // write the kernel's events as well
  std::string output;
  bool force = false;
};

// The facts about a recording that exporters use during the pass; at the end they have Naming.
struct ExportContext {
  const Timeline& timeline;
  std::vector<std::string> notes;
  std::optional<WallClock> wall_clock;
  std::string boot_id;  // the host's boot; empty: not known

  [[nodiscard]] std::optional<std::uint64_t> wall_ns(Timestamp at) const {
    return wall_clock ? std::optional(wall_clock->at(at)) : std::nullopt;
  }
};

class Exporter : public SpanSink {
 public:
  // Writes what is left and gives the output its name. Call this after the pass.
  [[nodiscard]] virtual Result<void> finish(const Naming& names) = 0;
  // Returns true if there is nothing to write. Call this after the pass. Formats with states and
  // threads always have something.
  [[nodiscard]] virtual bool is_empty(const Naming& /*names*/) const { return false; }
  // Returns true if writing failed: then nothing more needs to be read.
  [[nodiscard]] virtual bool failed() const = 0;
};

struct ExportFormat {
  std::string_view name, what;
  Result<std::unique_ptr<Exporter>> (*make)(const ExportContext&, const ExportOptions&);
};
// Returns all formats, in the order in which --list prints them.
[[nodiscard]] const std::vector<ExportFormat>& export_formats();
// Finds the format of this name. The Error (kUsage) suggests the nearest name.
[[nodiscard]] Result<const ExportFormat*> find_export_format(std::string_view name);
[[nodiscard]] Result<std::unique_ptr<Exporter>> make_exporter(const ExportContext& context,
                                                              const ExportOptions& options);

// Each of these makes the exporter of one format, which writes a file, or a folder (uftrace).
[[nodiscard]] Result<std::unique_ptr<Exporter>> make_perfetto(const ExportContext&,
                                                              const ExportOptions&);
[[nodiscard]] Result<std::unique_ptr<Exporter>> make_uftrace(const ExportContext&,
                                                             const ExportOptions&);
[[nodiscard]] Result<std::unique_ptr<Exporter>> make_folded(const ExportContext&,
                                                            const ExportOptions&);
// The exporter of jsonl, arrays and csv.
[[nodiscard]] Result<std::unique_ptr<Exporter>> make_rows(const ExportContext&,
                                                          const ExportOptions&);

}  // namespace trapline
