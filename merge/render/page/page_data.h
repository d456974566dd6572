// Collects the data of the page (docs/formats/page.md) in the pass that makes the report.
//
//   Pipeline ─┬─> the report's Aggregator, and one of requests
//             ├─> LongestStalls
//             ├─> GuestSpans, where asked for
//             └─> PageData: losses ──> Exits: tables, exact as in every report; cells that can be
//                                  │          selected and brushed
//                                  ├─> Shares: vCPU time, by state and time bin
//                                  ├─> HostTime: the host's CPU time, by thread and time bin
//                                  ├─> Waits: who kept the vCPUs waiting
//                                  ├─> FaultMap: page faults by address, time and cause
//                                  ├─> WorstExits: the longest, with what was around
//                                  └─> KernelStacks
//
// Memory does not grow with the recording.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/explain/guest_spans.h"
#include "merge/explain/stalls.h"
#include "merge/render/page/exits.h"
#include "merge/render/page/fault_map.h"
#include "merge/render/page/shares.h"
#include "merge/render/page/stacks.h"
#include "merge/render/page/waits.h"
#include "merge/render/page/worst_exits.h"
#include "merge/report/run.h"
#include "merge/report/table.h"

namespace trapline {

// Returns JSON that can be in a script element: what would end the element, or begin a comment in
// it, is escaped.
[[nodiscard]] std::string without_markup(const std::string& json);
// Returns the page's data (docs/formats/page.md) for one recording, or for two with `comparison`,
// their differences.
[[nodiscard]] std::string page_json(std::span<const std::string> recordings,
                                    const Report* comparison = nullptr);
// Checks that the page was built. The Error says what to install if it was not.
[[nodiscard]] Result<void> check_page();
void print_page(const std::string& json, std::ostream& out);

class PageData : public SpanSink {
 public:
  static constexpr std::size_t kMostBytes = 2'000'000;
  static constexpr std::size_t kMostLosses = 300, kMostRows = 200, kWorstGuestSpans = 10,
                               kStallRows = 20, kMostHostVms = 12;

  // Collects the data in `pass`, for the page of a report with these options, which are borrowed.
  PageData(const Pass& pass, const ReportOptions& options);

  // Returns the sinks that the pass needs for the page.
  [[nodiscard]] std::vector<SpanSink*> sinks();
  // Returns the recording's part of the page's data: one line of JSON, ASCII without '<' and '>',
  // at most kMostBytes if possible. An Error if --guest-span found no interval.
  [[nodiscard]] Result<std::string> recording(const PassEnd& pass, const ReportData& report);

  [[nodiscard]] SpanClass selects() const override {
    const SpanClass kernel = kernel_ ? SpanClass::kKernelParts : SpanClass::kNone;
    return SpanClass::kEvents | SpanClass::kAllEvents | SpanClass::kExits | SpanClass::kGuestRuns |
           SpanClass::kWaits | SpanClass::kStateRuns | SpanClass::kLosses | SpanClass::kFaults |
           kernel;
  }
  void event(const Event& event, const Pipeline& pipeline) override {
    host_.event(pipeline);
    worst_.event(event, pipeline);
  }
  void guest_run(const GuestRun& run, const Pipeline& pipeline) override {
    shares_.guest_run(run, pipeline);
  }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    exits_.exit(exit, pipeline);
    shares_.exit(exit, pipeline);
    waits_.exit(exit, pipeline);
    faults_.exit(exit, pipeline);
    worst_.exit(exit, pipeline);
    if (kernel_) kernel_->add(exit, *pipeline.kernel());
  }
  void unended(const UnendedExit& exit, const Pipeline& pipeline) override {
    exits_.unended(exit.span, pipeline);
  }
  void states(std::span<const StateRun> runs, const Pipeline& pipeline) override {
    shares_.states(runs, pipeline);
  }
  void lost(const Event& event, const Lost& lost, const Pipeline& pipeline) override;

 private:
  struct Writer;
  struct Loss {
    std::uint32_t cpu = 0;
    Timestamp from, to;
    std::uint64_t count = 0;
  };

  const ReportOptions& options_;
  ReportOptions asked_requests_;
  Aggregator requests_;
  page::Exits exits_;
  page::Shares shares_;
  page::HostTime host_;
  page::Waits waits_;
  page::FaultMap faults_;
  page::WorstExits worst_;
  LongestStalls stalls_;
  std::optional<KernelStacks> kernel_;
  std::optional<GuestSpans> guest_spans_;
  std::optional<GuestSpansExplained> guest_spans_explained_;
  std::vector<Loss> losses_;
  std::uint64_t losses_left_out_ = 0;
};

// Makes a report with the page's data for its recording.
[[nodiscard]] Result<ReportRun> run_page(const PassOptions& what, const ReportOptions& page,
                                         const Progress& progress);

}  // namespace trapline
