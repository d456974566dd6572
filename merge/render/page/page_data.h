// The data of the page (docs/formats/page.md), gathered in the pass that makes the report.
//
//   Pipeline ─┬─> the report's Aggregator, and one of requests
//             ├─> GuestSpans, where asked for
//             └─> PageData: losses ──> Exits: tables, exact as in every report; cells that can be
//                                  │          selected and brushed
//                                  ├─> Shares: vCPU time, by state and time bin
//                                  ├─> Waits: who kept the vCPUs waiting
//                                  ├─> WorstExits: the longest, with what was around
//                                  └─> GuestTimes: the guest's own time; PhaseTable
//
// Memory does not grow with the recording.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "merge/render/page/exits.h"
#include "merge/render/page/guest_times.h"
#include "merge/render/page/page_options.h"
#include "merge/render/page/shares.h"
#include "merge/render/page/waits.h"
#include "merge/render/page/worst_exits.h"
#include "merge/report/aggregator.h"
#include "merge/report/phase_table.h"
#include "merge/report/run.h"

namespace trapline {

class PageData : public SpanSink, public ReportCompanion {
 public:
  static constexpr std::size_t kMostLosses = 300, kMostRows = 200, kWorstGuestSpans = 10;

  explicit PageData(PageOptions options);
  ~PageData() override;

  // Of what was asked for; the report that it accompanies has few tables, for the page has its own.
  [[nodiscard]] static ReportOptions report_options(const ReportOptions& asked);

  // ReportCompanion
  [[nodiscard]] std::vector<SpanSink*> sinks(const Timeline& timeline, const Input& input,
                                             const ReportOptions& options) override;
  void finish(const Pipeline& pipeline, const Aggregator& report) override;
  [[nodiscard]] std::string_view option() const override { return "--format html"; }

  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kEvents | SpanClass::kExits | SpanClass::kWaits | SpanClass::kStateRuns |
           SpanClass::kLosses;
  }
  void event(const Event& event, const Pipeline& pipeline) override {
    shares_.event(event, pipeline);
    worst_.event(event, pipeline);
    guest_.event(event, pipeline);
    if (phases_) phases_->event(event, pipeline);
  }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    exits_.exit(exit, pipeline);
    shares_.exit(exit, pipeline);
    waits_.exit(exit, pipeline);
    worst_.exit(exit, pipeline);
    guest_.exit(exit, pipeline);
    if (phases_) phases_->exit(exit, pipeline);
  }
  void states(std::span<const StateRun> runs, const Pipeline& pipeline) override {
    shares_.states(runs, pipeline);
  }
  void lost(const Event& event, const Lost& lost, const Pipeline& pipeline) override;

  // After the pass: an Error where --guest-span found no interval.
  [[nodiscard]] const Result<void>& status() const { return status_; }
  // After the pass: the recording's part of the page's data, one line of JSON, ASCII only, without
  // '<' and '>'. At most kMostBytes.
  [[nodiscard]] const std::string& recording() const { return json_; }
  // The data of a page of this recording alone.
  [[nodiscard]] std::string json() const { return page_json({&json_, 1}); }

 private:
  struct Writer;
  struct Loss {
    std::uint32_t cpu = 0;
    Timestamp from, to;
    std::uint64_t count = 0;
  };

  PageOptions options_;
  const Timeline* timeline_ = nullptr;
  ReportOptions asked_requests_;
  std::unique_ptr<Aggregator> requests_;
  page::Exits exits_;
  page::Shares shares_;
  page::Waits waits_;
  page::WorstExits worst_{exits_};
  page::GuestTimes guest_;
  std::optional<PhaseTable> phases_;
  std::optional<GuestSpans> guest_spans_;
  std::optional<GuestSpansExplained> guest_spans_explained_;
  Result<void> status_;
  std::vector<Loss> losses_;
  std::uint64_t losses_left_out_ = 0;
  std::string json_;
};

}  // namespace trapline
