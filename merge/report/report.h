// Makes the Report of `trapline report`: its head, its tables and the suggested next commands.
#pragma once

#include <string>
#include <vector>

#include "merge/report/report_data.h"
#include "merge/report/table.h"

namespace trapline {

// Returns one or two sentences on where the vCPUs' time went and what the exits cost; empty if it
// is not known.
[[nodiscard]] std::string finding_text(const ReportData& data);

// Returns how far a source's times may be off, and what that assumes; empty if they are exact.
[[nodiscard]] std::string alignment_text(const SourceAlignment& aligned);

// The report's recording and window as words of the command line; the window may be empty.
struct RecordingWords {
  std::string recording, interval;
};
// Returns the suggested commands: about the largest part of the exits' time, about the longest
// exit, about what to change, and to record more.
[[nodiscard]] std::vector<NextStep> next_steps(const ReportData& data, const RecordingWords& words);

[[nodiscard]] std::vector<CounterRow> counter_rows(const ReportData& data);
// Adds the facts about the selection: "filter.vm": "web01", ….
void add_filter(Facts& head, const VcpuFilter& vcpus, const ExitFilter& exits);

// Makes the report, which borrows `data`.
[[nodiscard]] Report make_report(const ReportData& data, const RecordingWords& words);

}  // namespace trapline
