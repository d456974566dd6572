// The Report of `trapline report`: its head, its tables and what it says to ask next.
#pragma once

#include <string>
#include <vector>

#include "merge/report/report_data.h"
#include "merge/report/table.h"

namespace trapline {

// Where the vCPUs' time went and what the exits cost, in one sentence or two; empty where that is
// not known.
[[nodiscard]] std::string finding_text(const ReportData& data);

// How the report's recording, and the interval of it, are named on the command line; the latter may
// be empty.
struct RecordingWords {
  std::string recording, interval;
};
// Three at most: what the largest part of the exits' time can be asked for, the longest exit, and
// what changes would gain.
[[nodiscard]] std::vector<NextStep> next_steps(const ReportData& data, const RecordingWords& words);

[[nodiscard]] std::vector<CounterRow> counter_rows(const ReportData& data);
// "filter.vm": "web01", …: what was asked for.
void add_filter(Facts& head, const VcpuFilter& vcpus, const ExitFilter& exits);

// Borrows the data.
[[nodiscard]] Report make_report(const ReportData& data, const RecordingWords& words);

}  // namespace trapline
