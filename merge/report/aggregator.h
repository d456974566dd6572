// From spans to a Report: a sink that sums up exits, requests, interrupts and halts.
#pragma once

#include <optional>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/model/loss_counts.h"
#include "merge/pass/naming.h"
#include "merge/report/exit_keys.h"
#include "merge/report/groups.h"
#include "merge/report/irq_table.h"
#include "merge/report/kernel_table.h"
#include "merge/report/options.h"
#include "merge/report/phase_table.h"
#include "merge/report/report.h"
#include "merge/report/request_table.h"
#include "merge/report/slow_exits.h"
#include "merge/report/steal_table.h"
#include "merge/report/subjects.h"
#include "merge/report/wait_table.h"
#include "merge/session/input.h"

namespace trapline {

class Aggregator : public SpanSink {
 public:
  // Borrows both for as long as it lives.
  Aggregator(const Input& input, const ReportOptions& options);

  [[nodiscard]] SpanClass selects() const override;
  void event(const Event& event, const Pipeline& pipeline) override;
  void states(std::span<const StateRun> runs, const Pipeline& pipeline) override;
  void wait(const EndedWait& wait, const Pipeline& pipeline) override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;
  void call(const FunctionCall& call, const Pipeline& pipeline) override;
  void request(const RequestSpan& request, const Pipeline& pipeline) override;
  void delivered(const Delivered& delivered, const Pipeline& pipeline) override;
  void interrupt(const IrqSpan& interrupt, const Pipeline& pipeline) override;
  void lost(const Event& event, const Lost& loss, const Pipeline& pipeline) override;

  // The report of what came so far; once Pipeline::finish() was called, of all.
  [[nodiscard]] Report snapshot(const Naming& names) const;

 private:
  void report_counters(ReportCounters& told, const Naming& names) const;
  void report_groups(Report& report, const Naming& names) const;
  void sort_rows(Report& report) const;
  void report_waits(Report& report, const Naming& names) const;
  static void note_quotas(Report& report, const Pipeline& pipeline);

  const Input& input_;
  const ReportOptions& options_;
  ExitKeys keys_;
  bool needs_stack_, needs_waits_;
  bool rows_only_;  // exits are summed up in groups_ and subjects_ alone
  Groups groups_;
  LossCounts lost_;  // in the window
  Subjects subjects_;
  SlowExits slow_exits_;
  RequestTable requests_;
  IrqTable irqs_;
  WaitTable waits_;
  StealTable steal_;
  KernelTable kernel_;
  std::optional<PhaseTable> phases_;
};

}  // namespace trapline
