#include "merge/report/run.h"

#include <algorithm>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/report/feed.h"
#include "merge/report/vcpu_names.h"
#include "merge/report/window.h"
#include "merge/source/trace_dat/trace_dat_source.h"

namespace trapline {
namespace {

std::string choices(std::set<std::string> names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

// The most frequent events, "sched:sched_switch (1234), …".
std::string frequent_events(const Timeline& timeline) {
  constexpr std::size_t kShown = 6;
  std::vector<std::pair<std::string, std::uint64_t>> all;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    for (auto& event : timeline.source(i).event_counts()) all.push_back(std::move(event));
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kShown); ++i) {
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", all[i].first, all[i].second);
  }
  if (all.size() > kShown) text += fmt::format(", and {} more kinds", all.size() - kShown);
  return text.empty() ? "no events" : text;
}

// --from and --to count from the first event of all.
EventClass classes_for(const ReportOptions& options) {
  if (options.from || options.to || options.calls) return EventClass::kAll;
  EventClass classes = EventClass::kExits;
  if (options.irq || options.requests) classes = classes | EventClass::kInterrupts;
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
         std::find(options.by.begin(), options.by.end(), Dimension::kQemuEvent) != options.by.end();
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
Result<void> check_calls(const ReportOptions& options, bool with_companion) {
  const std::pair<bool, std::string_view> of_exits[] = {
      {options.slower_than.has_value(), "--slower-than"},
      {options.irq, "--irq"},
      {options.halt, "--halt"},
      {options.waits, "--waits"},
      {options.steal, "--steal"},
      {with_companion, "--format html"}};
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
                         const Pipeline& pipeline, bool with_companion) {
  if (!timeline.status() || has_exits(input.capabilities)) return {};
  if (options.calls && pipeline.stacks().records() != 0)
    return check_calls(options, with_companion);
  if (counts_markers(options) && input.capabilities.markers) return {};
  return tl::unexpected(no_exits(timeline));
}

}  // namespace

Error no_exits(const Timeline& timeline) {
  const std::string events = frequent_events(timeline);
  const std::string hint =
      events.find("ftrace:print") != std::string::npos && events.find("kvm:") == std::string::npos
          ? "; trace-cmd record -P follows the main thread only, record without -P"
          : "";
  return {
      fmt::format("{}: holds no VM exits, neither kvm_exit nor kvm_userspace_exit; it has {}{}; "
                  "record with: trace-cmd record -e kvm -e sched:sched_switch -e "
                  "sched:sched_waking -e syscalls:sys_enter_ioctl",
                  timeline.source(0).info().path, events, hint),
      ErrorKind::kRuntime};
}

Result<std::set<ThreadId>> matching_threads(const InputOptions& options, const VcpuFilter& filter,
                                            const Progress& progress) {
  InputOptions quiet = options;
  quiet.verbose = {};  // the pass for the result tells it
  auto input = open_input(quiet);
  if (!input) return tl::unexpected(std::move(input).error());
  Timeline timeline(std::move(input->sources));
  Pipeline pipeline(pipeline_options(timeline, *input), {});
  feed(timeline, pipeline, progress);
  const std::vector<VcpuThread> threads = vcpu_threads(pipeline.vcpus(), timeline);
  const std::vector<Vm> vms = find_vms(threads, pipeline.processes());
  std::set<ThreadId> matching;
  std::set<std::string> vm_names, vcpu_names;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    vm_names.insert(vms[i].text());
    vcpu_names.insert(threads[i].vcpu == kNoVcpu ? "unknown" : std::to_string(threads[i].vcpu));
    const bool vm_fits = filter.vm.empty() || vms[i].given == filter.vm ||
                         vms[i].id() == filter.vm || vms[i].id() == "~" + filter.vm;
    if (vm_fits && (!filter.vcpu || threads[i].vcpu == *filter.vcpu)) {
      matching.insert(threads[i].thread);
    }
  }
  if (matching.empty()) {
    return fail(ErrorKind::kUsage,
                "--vm/--vcpu: nothing matches; there are the VMs {} and the vCPUs {}",
                choices(vm_names), choices(vcpu_names));
  }
  return matching;
}

Result<ReportRun> run_report(const InputOptions& options, const ReportOptions& given,
                             const VcpuFilter& filter, const Progress& progress,
                             ReportCompanion* companion) {
  std::optional<std::set<ThreadId>> only;
  if (!filter.empty()) {
    auto threads = matching_threads(options, filter, progress);
    if (!threads) return tl::unexpected(std::move(threads).error());
    only = std::move(*threads);
  }
  auto input = open_input(options);
  if (!input) return tl::unexpected(std::move(input).error());
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
  how.threads = std::move(only);
  std::vector<SpanSink*> sinks = {&aggregator};
  if (companion != nullptr) {
    for (SpanSink* sink : companion->sinks(timeline, *input, report_options)) {
      sinks.push_back(sink);
    }
  }
  Pipeline pipeline(std::move(how), std::move(sinks));
  feed(timeline, pipeline, progress);
  if (auto found = check_found(timeline, *input, report_options, pipeline, companion != nullptr);
      !found) {
    return tl::unexpected(std::move(found).error());
  }
  pipeline.finish();
  if (companion != nullptr) companion->finish(pipeline);
  const bool part = report_options.from || report_options.to;
  if (part && timeline.status() && !pipeline.begin() && pipeline.stacks().records() == 0) {
    return tl::unexpected(empty_window(timeline));
  }
  return ReportRun{aggregator.snapshot(pipeline), timeline.status()};
}

}  // namespace trapline
