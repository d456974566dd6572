// Turns spans into a ReportData: sums up the groups of --by, and lets the other selected tables
// collect their rows. Also makes one report, from the user's options to plain data.
#pragma once

#include <memory>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/model/loss_counts.h"
#include "merge/pass/naming.h"
#include "merge/pass/pass.h"
#include "merge/report/dimensions.h"
#include "merge/report/groups.h"
#include "merge/report/options.h"
#include "merge/report/report_data.h"
#include "merge/report/requests.h"
#include "merge/report/slow_exits.h"
#include "merge/report/table_kinds.h"
#include "merge/session/input.h"

namespace trapline {

// Returns a report's data as far as the pass alone has them: no rows, no tables. A source only
// knows the losses of its whole recording, so a window's data have no losses of the host's kernel.
[[nodiscard]] ReportData data_of(const Naming& names);

class Aggregator : public SpanSink {
 public:
  // Borrows input and options. `tables` come from make_tables().
  Aggregator(const Input& input, const ReportOptions& options,
             std::vector<std::unique_ptr<TableSink>> tables = {});
  // Returns the aggregator and its tables, as the sinks of the pass.
  [[nodiscard]] std::vector<SpanSink*> sinks();

  [[nodiscard]] SpanClass selects() const override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void unended(const UnendedExit& exit, const Pipeline& pipeline) override;
  void call(const FunctionCall& call, const Pipeline& pipeline) override;
  void request(const RequestSpan& request, const Pipeline&) override { requests_.add(request); }
  void delivered(const Delivered& made, const Pipeline&) override { requests_.add(made); }

  // Returns the report of everything so far; complete after Pipeline::finish().
  [[nodiscard]] ReportData snapshot(const Naming& names) const;

 private:
  void report_groups(ReportData& report, const Naming& names) const;
  void sort_rows(ReportData& report) const;
  static void note_quotas(ReportData& report, const Pipeline& pipeline);

  const Input& input_;
  const ReportOptions& options_;
  ExitKeys keys_;
  bool needs_stack_, needs_waits_;
  Grouping<ExitGroup> groups_;
  Subjects subjects_;
  OpenExits open_;
  std::uint32_t isa_ = 0;
  RequestTable requests_;
  std::vector<std::unique_ptr<TableSink>> tables_;
};

// A finished report.

struct ReportRun {
  ReportData report;
  std::string recording;  // the page's data for the recording, if a page was made
  // An Error if the input ended early; then the report contains what came before.
  Result<void> status;
};

// Returns the options adjusted to the recording: a recording without exits is reported by its calls
// of guest functions, if it contains some.
[[nodiscard]] ReportOptions options_for(const ReportOptions& requested, const Input& input);

// Calls Pass::run() for a report and for other sinks. Errors: a recording without exits (says which
// events it contains and how to record the right ones); a window without events.
[[nodiscard]] Result<PassEnd> read_report(Pass pass, const ReportOptions& options,
                                          std::vector<SpanSink*> sinks, const Progress& progress);

// Returns the aggregator's report of what read_report() has read.
[[nodiscard]] ReportData report_of(const PassEnd& pass, const Aggregator& aggregator);

// Makes a whole report. Errors: also those of Pass::open().
[[nodiscard]] Result<ReportRun> run_report(const PassOptions& what, const ReportOptions& requested,
                                           const Progress& progress);

}  // namespace trapline
