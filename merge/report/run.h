// From spans to a ReportData: sums up the groups of --by, and has the other tables that were asked
// for gather theirs. And one report, from what the user named to plain data.
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

class Aggregator : public SpanSink {
 public:
  // Borrows input and options for as long as it lives. `tables`: make_tables().
  Aggregator(const Input& input, const ReportOptions& options,
             std::vector<std::unique_ptr<TableSink>> tables = {});
  // All that take part in the pass.
  [[nodiscard]] std::vector<SpanSink*> sinks();

  [[nodiscard]] SpanClass selects() const override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void unended(const UnendedExit& exit, const Pipeline& pipeline) override;
  void call(const FunctionCall& call, const Pipeline& pipeline) override;
  void request(const RequestSpan& request, const Pipeline& pipeline) override;
  void delivered(const Delivered& delivered, const Pipeline& pipeline) override;
  void lost(const Event& event, const Lost& loss, const Pipeline& pipeline) override;

  // The report of what came so far; once Pipeline::finish() was called, of all.
  [[nodiscard]] ReportData snapshot(const Naming& names) const;

 private:
  void report_counters(ReportCounters& told, const Naming& names) const;
  void report_groups(ReportData& report, const Naming& names) const;
  void sort_rows(ReportData& report) const;
  static void note_quotas(ReportData& report, const Pipeline& pipeline);

  const Input& input_;
  const ReportOptions& options_;
  ExitKeys keys_;
  bool needs_stack_, needs_waits_;
  Groups groups_;
  LossCounts lost_;  // in the window
  Subjects subjects_;
  OpenExits open_;
  RequestTable requests_;
  std::vector<std::unique_ptr<TableSink>> tables_;
};

// One report, from what the user named to plain data.

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
