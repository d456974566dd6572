// One report, from what the user named to plain data.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "merge/report/aggregator.h"
#include "merge/report/first_look.h"

namespace trapline {

struct ReportRun {
  Report report;
  Result<void> status;  // an error when the input ended early: the report holds what came before
};

// Others that take part in the pass over the input.
class ReportCompanion {
 public:
  virtual ~ReportCompanion() = default;
  // Before the pass; what it borrows stays until the report is made. Then every event is read.
  [[nodiscard]] virtual std::vector<SpanSink*> sinks(const Timeline& timeline, const Input& input,
                                                     const ReportOptions& options) = 0;
  // After the pass, while the pipeline and the timeline are still there; `report` took part in it.
  virtual void finish(const Pipeline& pipeline, const Aggregator& report) = 0;
  // What it was asked for with, for an Error.
  [[nodiscard]] virtual std::string_view option() const = 0;
};

// Errors: those of open_input; a recording without exits (says which events it holds and how to
// record the right ones); a filter that nothing matches (says what there is).
[[nodiscard]] Result<ReportRun> run_report(const InputOptions& input, const ReportOptions& options,
                                           const VcpuFilter& filter, const Progress& progress,
                                           ReportCompanion* companion = nullptr);

}  // namespace trapline
