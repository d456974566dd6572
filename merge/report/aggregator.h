// From spans to a ReportData: sums up the groups of --by, and has the other tables that were asked
// for gather theirs.
#pragma once

#include <memory>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/model/loss_counts.h"
#include "merge/pass/naming.h"
#include "merge/report/exit_keys.h"
#include "merge/report/groups.h"
#include "merge/report/options.h"
#include "merge/report/report_data.h"
#include "merge/report/requests.h"
#include "merge/report/subjects.h"
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
  RequestTable requests_;
  std::vector<std::unique_ptr<TableSink>> tables_;
};

}  // namespace trapline
