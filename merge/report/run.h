// One report, from what the user named to plain data.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "merge/report/aggregator.h"

namespace trapline {

// Which vCPUs count. Both are known for certain only when the recording was read: a filter costs a
// pass over it.
struct VcpuFilter {
  std::optional<std::int32_t> vcpu;
  std::string vm;  // its name, or the process id, "~" in front where inferred
  [[nodiscard]] bool empty() const { return !vcpu && vm.empty(); }
};

// Called now and then with the share of the input that was read, 0 to 1.
using Progress = std::function<void(double)>;

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
  // After the pass, while the pipeline and the timeline are still there.
  virtual void finish(const Pipeline& pipeline) = 0;
};

// Errors: those of open_input; a recording without exits (says which events it holds and how to
// record the right ones); a filter that nothing matches (says what there is).
[[nodiscard]] Result<ReportRun> run_report(const InputOptions& input, const ReportOptions& options,
                                           const VcpuFilter& filter, const Progress& progress,
                                           ReportCompanion* companion = nullptr);

// The vCPU threads that the filter lets through.
[[nodiscard]] Result<std::set<ThreadId>> matching_threads(const InputOptions& input,
                                                          const VcpuFilter& filter,
                                                          const Progress& progress);

// What is wrong with a recording that holds no exits.
[[nodiscard]] Error no_exits(const Timeline& timeline);

}  // namespace trapline
