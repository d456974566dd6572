#include "merge/report/run.h"

#include <algorithm>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/report/feed.h"
#include "merge/report/no_exits.h"
#include "merge/report/placement.h"
#include "merge/report/window.h"
#include "merge/source/trace_dat/trace_dat_source.h"

namespace trapline {
namespace {

// --from and --to count from the first event of all.
EventClass classes_for(const ReportOptions& options) {
  if (options.from || options.to || options.calls) return EventClass::kAll;
  EventClass classes = EventClass::kExits;
  if (options.irq || options.requests) classes = classes | EventClass::kInterrupts;
  if (options.requests) classes = classes | EventClass::kRequests;
  const bool waits = std::any_of(options.by.begin(), options.by.end(), [](Dimension dimension) {
    return dimension == Dimension::kPreemptedBy || dimension == Dimension::kBlockedOn;
  });
  if (options.halt || options.waits || options.steal || waits)
    classes = classes | EventClass::kHalts;
  return classes;
}

// Whether the report has something to say of events in trace_marker alone.
bool counts_markers(const ReportOptions& options) {
  return options.requests ||
         std::find(options.by.begin(), options.by.end(), Dimension::kVmmEvent) != options.by.end();
}

// A recording without exits is reported by calls of guest functions, where it holds some.
ReportOptions options_for(const ReportOptions& given, const Input& input) {
  ReportOptions options = given;
  options.calls = !has_exits(input.capabilities) && !options.requests;
  if (options.calls && options.by_default) {
    options.by = {Dimension::kFunction};
    options.by_text = "function";
  }
  return options;
}

// What was asked for that only exits have.
Result<void> check_calls(const ReportOptions& options, const ReportCompanion* companion) {
  const std::pair<bool, std::string_view> of_exits[] = {
      {companion != nullptr, companion != nullptr ? companion->option() : ""},
      {options.slower_than.has_value(), "--slower-than"},
      {options.irq, "--irq"},
      {options.halt, "--halt"},
      {options.waits, "--waits"},
      {options.steal, "--steal"}};
  for (const auto& [asked, name] : of_exits) {
    if (!asked) continue;
    return fail(ErrorKind::kUsage,
                "{}: shows VM exits, and this recording has none; its calls of guest functions are "
                "reported with --by, as text, JSON or CSV",
                name);
  }
  return check_dimensions_of_calls(options.by);
}

// After the pass: whether there is something to report.
Result<void> check_found(const Timeline& timeline, const Input& input, const ReportOptions& options,
                         const Pipeline& pipeline, const ReportCompanion* companion) {
  if (!timeline.status() || has_exits(input.capabilities)) return {};
  if (options.calls && pipeline.stacks().records() != 0) return check_calls(options, companion);
  if (counts_markers(options) && input.capabilities.markers) return {};
  return tl::unexpected(no_exits(timeline));
}

}  // namespace

Result<ReportRun> run_report(const InputOptions& options, const ReportOptions& given,
                             const VcpuFilter& filter, const Progress& progress,
                             ReportCompanion* companion) {
  auto opened = open_and_look(options, {filter}, progress);
  if (!opened) return tl::unexpected(std::move(opened).error());
  Input* input = &opened->input;
  const ReportOptions report_options = options_for(given, *input);
  for (auto& source : input->sources)
    source->select(companion == nullptr ? classes_for(report_options) : EventClass::kAll);
  Timeline timeline(std::move(input->sources));
  if (auto window =
          check_window(timeline, {"--from", report_options.from}, {"--to", report_options.to});
      !window) {
    return tl::unexpected(std::move(window).error());
  }
  Aggregator aggregator(timeline, *input, report_options);
  PipelineOptions how = pipeline_options(timeline, *input);
  how.requests = report_options.request_specs;
  how.from = report_options.from;
  how.to = report_options.to;
  how.threads = std::move(opened->found.threads);
  std::vector<SpanSink*> sinks = {&aggregator};
  if (companion != nullptr) {
    for (SpanSink* sink : companion->sinks(timeline, *input, report_options)) {
      sinks.push_back(sink);
    }
  }
  Pipeline pipeline(std::move(how), std::move(sinks));
  feed(timeline, pipeline, progress);
  if (auto found = check_found(timeline, *input, report_options, pipeline, companion); !found) {
    return tl::unexpected(std::move(found).error());
  }
  if (auto placed = check_placement(timeline, pipeline); !placed) {
    return tl::unexpected(std::move(placed).error());
  }
  finish(timeline, pipeline);
  if (companion != nullptr) companion->finish(pipeline, aggregator);
  const bool part = report_options.from || report_options.to;
  if (part && timeline.status() && !pipeline.begin() && pipeline.stacks().records() == 0) {
    return tl::unexpected(empty_window(timeline));
  }
  return ReportRun{aggregator.snapshot(pipeline), timeline.status()};
}

}  // namespace trapline
