#include "merge/pass/pass.h"

#include <fmt/format.h>

#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/pass/distinct_runs.h"

namespace trapline {

Result<void> check_placement(const Timeline& timeline, const Pipeline& pipeline) {
  const PlacementCheck& check = pipeline.placement();
  if (!check.contradicts()) return {};
  const Misplaced& first = *check.first();
  const SourceInfo& info = timeline.source(first.source).info();
  const SourceAlignment& aligned = info.aligned;
  const auto time = [](Timestamp at) { return seconds_text(at.ns()); };
  return fail(
      "{}: the recordings contradict its clock's alignment ({}, ± {} ns): {} of its {} events on "
      "threads of vCPUs would lie in a run of the guest, where the thread is not in user space; "
      "the first is of thread {} at {}, whose vCPU ran the guest from {} to {}; it may be of "
      "another run; leave it out, or give --offset {}=NS, the nanoseconds to add to its times",
      info.path, aligned.method_text(),
      aligned.error_ns.value_or(aligned.one_boot_error_ns.value_or(0)), check.impossible(),
      check.placed(), tid_text(first.thread), time(first.at), time(first.entry), time(first.exit),
      info.path);
}

namespace {

// Returns the events that a source of that role must decode for sinks that select these classes.
EventClass events_for(SpanClass selected, Role role) {
  if (has(selected, SpanClass::kAllEvents | SpanClass::kCalls | SpanClass::kKernelParts))
    return EventClass::kAll;
  if (has(selected, SpanClass::kGuestIntervals) && role != Role::kHostKernel)
    return EventClass::kAll;
  EventClass events = EventClass::kExits;
  if (has(selected, SpanClass::kInterrupts | SpanClass::kRequests))
    events = events | EventClass::kInterrupts;
  if (has(selected, SpanClass::kRequests)) events = events | EventClass::kRequests;
  if (has(selected, SpanClass::kHostRuns)) events = events | EventClass::kHostRuns;
  if (has(selected, SpanClass::kHalts | SpanClass::kWaits | SpanClass::kDeeds |
                        SpanClass::kGuestIntervals | SpanClass::kStalls | SpanClass::kFaults))
    events = events | EventClass::kHalts;
  if (has(selected, SpanClass::kStalls | SpanClass::kFaults)) events = events | EventClass::kFaults;
  return events;
}

}  // namespace

PipelineOptions pipeline_options(const Timeline& timeline, const Input& input) {
  PipelineOptions options;
  options.model = choose_exit_model(input.capabilities,
                                    timeline.size() != 0 && timeline.source(0).info().cycles);
  options.declared = &input.declared;
  options.symbols = &input.symbols;
  options.processes = input.processes;
  options.records_file_pages = input.records_file_pages;
  options.swaps = input.swaps;
  options.event_name = [&timeline](const Event& event) {
    return timeline.source_of(event).event_name(event);
  };
  options.event_text = [&timeline](const Event& event) {
    return timeline.source_of(event).event_text(event);
  };
  options.kernel_function = [&timeline](const Event& event) {
    const auto* call = std::get_if<HostEvent>(&event.payload);
    return call == nullptr ? std::string()
                           : timeline.source_of(event).kernel_function(call->address);
  };
  std::vector<std::optional<std::uint64_t>> errors(timeline.size());
  bool related = false;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const SourceInfo& info = timeline.source(i).info();
    options.roles.push_back(info.role);
    // An offset that the user gave with --offset is not checked.
    const SourceAlignment& aligned = info.aligned;
    const auto error = aligned.error_ns ? aligned.error_ns : aligned.one_boot_error_ns;
    if (info.role != Role::kHostProgram || aligned.is_same_clock() || !error) continue;
    errors[i] = *error + info.resolution_ns.value_or(0);
    related = true;
  }
  if (related) options.placement_errors = std::move(errors);
  return options;
}

std::unique_ptr<Pipeline> make_pipeline(PipelineOptions options, ExitMatcher* matcher,
                                        std::vector<SpanSink*> sinks) {
  if (matcher != nullptr) {
    options.wants = [matcher](const ExitSpan& exit, const Pipeline& pipeline) {
      return matcher->holds(exit, pipeline);
    };
  }
  return std::make_unique<Pipeline>(std::move(options), std::move(sinks));
}

Result<Pass> Pass::open(PassOptions options, const Progress& progress) {
  LookFor look{options.which.vcpus, options.which.exits, options.longest, options.chosen};
  if (!look.wants_exits()) look.to = options.which.to.time;
  auto opened = open_and_look(options.input, look, progress);
  if (!opened) return tl::unexpected(std::move(opened).error());
  Pass pass;
  pass.options_ = std::move(options);
  pass.found_ = std::move(opened->found);
  pass.input_ = std::make_unique<Input>(std::move(opened->input));
  pass.timeline_ = std::make_unique<Timeline>(std::move(pass.input_->sources));
  const Selection& which = pass.options_.which;
  if (!which.exits.empty())
    pass.matcher_ = std::make_unique<ExitMatcher>(which.exits, source_of(*pass.timeline_));
  if (look.longest && !choose_exit_model(pass.input().capabilities).durations())
    return tl::unexpected(no_durations(pass.timeline()));
  if (look.longest && pass.found().lacks_entries)
    return tl::unexpected(no_entries(pass.timeline()));
  if (auto window = check_window(pass.timeline(), which.from, which.to); !window)
    return tl::unexpected(std::move(window).error());
  return pass;
}

Result<PassEnd> Pass::read(PassOptions options, std::vector<SpanSink*> sinks,
                           const Progress& progress) {
  auto pass = open(std::move(options), progress);
  if (!pass) return tl::unexpected(std::move(pass).error());
  auto end = std::move(*pass).run(std::move(sinks), progress);
  if (end && !end->status()) return tl::unexpected(end->status().error());
  return end;
}

void Pass::look_at(std::optional<TimeSpec> from, std::optional<TimeSpec> to) {
  options_.which.from.time = from;
  options_.which.to.time = to;
  may_be_empty_ = true;
}

Result<PassEnd> Pass::run(std::vector<SpanSink*> sinks, const Progress& progress,
                          const std::function<bool()>& stop) && {
  SpanClass selected = SpanClass::kNone;
  for (const SpanSink* sink : sinks) selected = selected | sink->selects();
  PipelineOptions how = pipeline_options(*timeline_, *input_);
  how.requests = options_.requests;
  how.guest_intervals = options_.guest_intervals;
  how.stalls_ns = options_.stalls_ns;
  how.from = options_.which.from.time;
  how.to = options_.which.to.time;
  how.threads = found_.threads;
  // Relative times count from the first event of any kind, so no event may be left out.
  if (how.from || how.to) selected = selected | SpanClass::kAllEvents;
  for (std::size_t i = 0; i < timeline_->size(); ++i)
    timeline_->select(i, events_for(selected, timeline_->source(i).info().role));
  auto pipeline = make_pipeline(std::move(how), matcher_.get(), std::move(sinks));
  SharedExits shared(*timeline_);
  feed(*timeline_, *pipeline, progress, stop, shared.compares() ? &shared : nullptr);
  auto right = check_distinct(*timeline_);
  if (right) right = shared.check();
  if (right) right = check_placement(*timeline_, *pipeline);
  if (!right) return tl::unexpected(std::move(right).error());
  finish(*timeline_, *pipeline);
  const bool empty = !pipeline->begin() && pipeline->stacks().records() == 0;
  const bool whole = timeline().status() && !(stop && stop()) && !may_be_empty_;
  if (whole && empty && pipeline->is_window()) return tl::unexpected(empty_window(timeline()));
  return PassEnd(std::move(*this), std::move(pipeline));
}

Result<void> PassEnd::check_exits() const {
  if (!has_exits(input().capabilities)) return tl::unexpected(no_exits(timeline()));
  if (pipeline().exits().lacks_entries()) return tl::unexpected(no_entries(timeline()));
  return {};
}

Result<void> PassEnd::check_names() const {
  return matcher() == nullptr || !status() ? Result<void>() : matcher()->check();
}

Result<void> PassEnd::check_times() const {
  if (auto found = check_exits(); !found) return found;
  if (auto found = check_names(); !found) return found;
  if (!pipeline().exits().model().cycles) return {};
  return fail(ErrorKind::kUsage,
              "{}: its times are cycles; give the counter's frequency with --tsc-khz", path());
}

}  // namespace trapline
