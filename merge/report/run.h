// One report, from what the user named to plain data.
#pragma once

#include <vector>

#include "merge/pass/pass.h"
#include "merge/report/aggregator.h"

namespace trapline {

struct ReportRun {
  ReportData report;
  Result<void> status;  // an error when the input ended early: the report holds what came before
};

// What was asked for, as the recording can be reported: one without exits by its calls of guest
// functions, where it holds some.
[[nodiscard]] ReportOptions options_for(const ReportOptions& asked, const Input& input);

// Pass::run() for a report and for sinks beside it. Errors: a recording without exits (says which
// events it holds and how to record the right ones); an interval without events.
[[nodiscard]] Result<void> read_report(Pass& pass, const ReportOptions& options,
                                       std::vector<SpanSink*> sinks, const Progress& progress);

// The aggregator's, of what read_report() has read.
[[nodiscard]] ReportData report_of(const Pass& pass, const Aggregator& aggregator);

// All of it. Errors: those of Pass::open() as well.
[[nodiscard]] Result<ReportRun> run_report(const PassOptions& what, const ReportOptions& asked,
                                           const Progress& progress);

}  // namespace trapline
