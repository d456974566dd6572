// Tables that stand beside a Report and are made in the same pass: what --halt says of costs, and
// --phases.
#pragma once

#include <optional>
#include <vector>

#include "merge/report/halt_cost_report.h"
#include "merge/report/phase_table.h"
#include "merge/report/run.h"

namespace trapline {

struct SideTables {
  std::optional<std::vector<HaltCostRow>> halts;  // in order of VM and vCPU
  std::optional<PhaseReport> phases;
};

class SideTablesPass : public ReportCompanion, public SpanSink {
 public:
  // Nothing of phases: none are asked for.
  SideTablesPass(bool halts, std::optional<std::vector<PhaseSpec>> phases);

  [[nodiscard]] std::vector<SpanSink*> sinks(const Timeline& timeline, const Input& input,
                                             const ReportOptions& options) override;
  void finish(const Pipeline& pipeline, const Aggregator& report) override;
  [[nodiscard]] std::string_view option() const override {
    return with_halts_ ? "--halt" : "--phases";
  }
  [[nodiscard]] const SideTables& tables() const { return tables_; }

  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kEvents | SpanClass::kExits;
  }
  void event(const Event& event, const Pipeline& pipeline) override;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override;

 private:
  bool with_halts_;
  const Timeline* timeline_ = nullptr;
  HaltCosts halts_;
  std::optional<PhaseTable> phases_;
  SideTables tables_;
};

}  // namespace trapline
