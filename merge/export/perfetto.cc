#include "merge/export/perfetto.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/report/exit_text.h"

namespace trapline {
namespace {

using perfetto::Annotation;
using perfetto::Slice;

// A flow's number: of the span that it leaves, which may lead to one of each kind.
std::uint64_t flow_of(SpanId from, FlowKind kind) {
  return static_cast<std::uint64_t>(from) << 2 | static_cast<std::uint64_t>(kind);
}

std::int32_t number(ThreadId thread) { return static_cast<std::int32_t>(thread); }

// "Linux NAME RELEASE VERSION… MACHINE" as trace-cmd writes it.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const auto blank = std::min(text.find(' '), text.size());
    if (blank != 0) words.push_back(text.substr(0, blank));
    text.remove_prefix(std::min(blank + 1, text.size()));
  }
  return words;
}

}  // namespace

PerfettoExporter::PerfettoExporter(const ExportContext& context, const ExportOptions& options,
                                   OutputFile output)
    : context_(context), events_(options.events), writer_(std::move(output)) {
  add_metadata();
}

SpanClass PerfettoExporter::selects() const {
  return SpanClass::kEvents | SpanClass::kExits | SpanClass::kSpans | SpanClass::kFunctions |
         SpanClass::kRequests | SpanClass::kInterrupts | SpanClass::kLosses;
}

// The recording's own facts, as a slice of its own and as the trace's system information.
void PerfettoExporter::add_metadata() {
  const Timeline& timeline = context_.timeline;
  const std::uint64_t track = about_track_ = writer_.add_track(0, "trapline", -10);
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const Source& source = timeline.source(i);
    const SourceInfo& info = source.info();
    std::vector<std::pair<std::string, std::string>> facts = source.facts();
    facts.emplace_back("kind", info.kind);
    facts.emplace_back("clock", info.clock);
    facts.emplace_back("aligned by", info.method);
    facts.emplace_back("clock error bound",
                       info.error_ns ? fmt::format("{} ns", *info.error_ns) : "not known");
    Slice slice{info.path, "trapline", {}, {}, {}};
    for (const auto& [name, text] : facts) {
      slice.annotations.push_back({name, Annotation::Kind::kText, 0, text});
      if (name != "host" || i != 0) continue;
      const auto words = words_of(text);
      if (words.size() < 4) continue;
      const std::string_view release = words[2], machine = words.back();
      const auto at = text.find(release) + release.size();
      const auto end = text.rfind(machine);
      writer_.add_system(words[0], release,
                         trimmed(std::string_view(text).substr(at, end > at ? end - at : 0)),
                         machine);
    }
    const SourceCounters& counters = source.counters();
    writer_.instant(track, counters.first.ns(), slice);
  }
  for (const std::string& note : context_.notes) {
    writer_.instant(track, 0, {note, "trapline", {}, {}, {}});
  }
}

std::uint64_t PerfettoExporter::vm_track(ThreadId process) {
  const auto [place, is_new] = vms_.try_emplace(process, 0);
  if (is_new) {
    const std::string name = process == ThreadId{} ? "VM" : fmt::format("VM {}", number(process));
    place->second = writer_.add_track(0, name, -5, true);
  }
  return place->second;
}

std::uint64_t PerfettoExporter::vcpu_track(const Span& span, const Pipeline& pipeline) {
  const auto [place, is_new] = vcpus_.try_emplace(span.track.thread, 0);
  if (is_new) {
    const ThreadId thread = span.track.thread;
    const std::uint64_t vm = vm_track(pipeline.processes().of(thread, {}));
    const std::string name = span.vcpu == kNoVcpu
                                 ? fmt::format("vCPU of tid {}", number(thread))
                                 : fmt::format("vCPU {} (tid {})", span.vcpu, number(thread));
    place->second = writer_.add_track(vm, name, span.vcpu, true);
  }
  return place->second;
}

std::uint64_t PerfettoExporter::function_track(const Span& span, const Pipeline& pipeline) {
  const auto key = std::tuple{span.track.machine, span.track.thread, span.track.task};
  const auto [place, is_new] = functions_.try_emplace(key, 0);
  if (is_new) {
    const bool of_vcpu = span.track.thread != ThreadId{};
    const std::uint64_t parent = of_vcpu ? vcpu_track(span, pipeline) : vm_track({});
    const auto task = static_cast<std::uint32_t>(span.track.task);
    place->second = writer_.add_track(
        parent, task == 0 ? "guest functions" : fmt::format("guest task {}", task), 1, true);
  }
  return place->second;
}

// Slices of one track must not overlap: a lane that is free at the span's begin, or a new one.
// Spans come in the order of their ends, so what is in a lane already ended before.
std::uint64_t PerfettoExporter::lane(std::vector<Lane>& lanes, const Span& span,
                                     std::string_view name) {
  for (Lane& lane : lanes) {
    if (lane.busy_until > span.begin) continue;
    lane.busy_until = span.end;
    return lane.track;
  }
  if (lanes.size() >= kMostLanes) {
    ++left_out_;
    return 0;
  }
  lanes.push_back({writer_.add_track(vm_track(span.track.thread), name, 100), span.end});
  return lanes.back().track;
}

void PerfettoExporter::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  write_open_exit(pipeline);
  write_asynchronous(pipeline);
  describe(exit, pipeline);
  count(exit, pipeline);
}

void PerfettoExporter::describe(const ExitSpan& exit, const Pipeline& pipeline) {
  const Source& source = context_.timeline.source(exit.source);
  next_ = {};
  next_.writes = exit.detail.access == Access::kWrite;
  next_.name = reason_text(source, exit.reason);
  const auto text = [this](std::string_view name, std::string value) {
    if (value != "-" && !value.empty()) next_.texts.emplace_back(name, std::move(value));
  };
  text("detail", detail_text(exit.detail));
  text("device", name_or_dash(pipeline.names(), exit.device));
  text("handler", name_or_dash(pipeline.names(), exit.qemu_event));
  const StackId stack = pipeline.stack_of(exit);
  if (stack != kNoStack) {
    text("function", function_text(pipeline.names(), pipeline.stacks().innermost(stack)));
    text("stack", pipeline.stacks().text(stack));
  }
  if (exit.userspace_reason != ExitSpan::kNoUserspaceReason) {
    text("to user space", source.userspace_reason(exit.userspace_reason));
  }
  if (exit.preempted_by != ThreadId{}) {
    text("preempted by",
         fmt::format("{}-{}", source.comm(exit.preempted_by), number(exit.preempted_by)));
  }
  if (exit.rip != 0) next_.numbers.emplace_back("rip", exit.rip);
  if (exit.injected != kNoVector) next_.numbers.emplace_back("injected vector", exit.injected);
}

void PerfettoExporter::span(const Span& span, const Pipeline& pipeline) {
  switch (span.kind) {
    case SpanKind::kExit:
      open_ = std::move(next_);
      open_->span = span;
      return;
    case SpanKind::kPart:
      if (open_) open_->parts.push_back(span);
      return;
    case SpanKind::kHandler:
      if (open_) open_->handlers.push_back(span);
      return;
    default:
      break;
  }
  write_open_exit(pipeline);
  write_asynchronous(pipeline);
  if (span.kind == SpanKind::kGuest) {
    const std::uint64_t track = vcpu_track(span, pipeline);
    writer_.begin(track, span.begin.ns(), {"guest", "guest", {}, {}, {}});
    writer_.end(track, span.end.ns());
  } else if (span.kind == SpanKind::kFunction) {
    writer_.end(function_track(span, pipeline), span.end.ns());
  } else {
    asynchronous_ = {span, {}};
  }
}

void PerfettoExporter::begin(const Span& span, const Pipeline& pipeline) {
  write_open_exit(pipeline);
  const Slice slice{pipeline.names()[span.name], "function", {}, {}, {}};
  writer_.begin(function_track(span, pipeline), span.begin.ns(), slice);
}

// The exit with its parts inside, and QEMU's handlers inside the parts, in nested order.
void PerfettoExporter::write_open_exit(const Pipeline& pipeline) {
  if (!open_) return;
  const OpenExit& open = *open_;
  const std::uint64_t track = vcpu_track(open.span, pipeline);
  Slice slice{open.name, "exit", {}, {}, {}};
  for (const auto& [name, value] : open.texts) {
    slice.annotations.push_back({name, Annotation::Kind::kText, 0, value});
  }
  for (const auto& [name, value] : open.numbers) {
    slice.annotations.push_back({name, Annotation::Kind::kPointer, value, {}});
  }
  if (open.served != SpanId::kNone) {
    slice.flows.push_back(flow_of(open.span.id, FlowKind::kServedBy));
  }
  // A request may name it as the exit with its notify, long after this is written.
  if (open.writes) slice.flows.push_back(flow_of(open.span.id, FlowKind::kNotify));
  writer_.begin(track, open.span.begin.ns(), slice);
  std::size_t next = 0;
  for (const Span& part : open.parts) {
    writer_.begin(track, part.begin.ns(),
                  {kPartNames[static_cast<std::size_t>(part.part)], "part", {}, {}, {}});
    for (; next < open.handlers.size() && open.handlers[next].end <= part.end; ++next) {
      const Span& handler = open.handlers[next];
      Slice inner{pipeline.names()[handler.region != kNoName ? handler.region : handler.name],
                  "qemu",
                  {},
                  {},
                  {}};
      inner.annotations.push_back(
          {"event", Annotation::Kind::kText, 0, pipeline.names()[handler.name]});
      if (handler.id == open.served) {
        inner.ending_flows.push_back(flow_of(open.span.id, FlowKind::kServedBy));
      }
      writer_.begin(track, std::max(handler.begin, part.begin).ns(), inner);
      writer_.end(track, handler.end.ns());
    }
    writer_.end(track, part.end.ns());
  }
  writer_.end(track, open.span.end.ns());
  open_.reset();
}

// Held back until the flows that end in it are known: they follow it.
void PerfettoExporter::write_asynchronous(const Pipeline& pipeline) {
  if (!asynchronous_) return;
  const auto [span, ending_flows] = *asynchronous_;
  asynchronous_.reset();
  const bool request = span.kind == SpanKind::kRequest;
  auto& lanes = lanes_[{span.track.kind, span.track.thread}];
  const std::uint64_t track = lane(lanes, span, request ? "requests" : "interrupts");
  if (track == 0) return;
  const std::string name = request                    ? std::string(pipeline.names()[span.name])
                           : span.number == kNoVector ? std::string("interrupt")
                                                      : fmt::format("interrupt {:#x}", span.number);
  Slice slice{name, request ? "request" : "interrupt", {}, {}, ending_flows};
  if (request) slice.flows.push_back(flow_of(span.id, FlowKind::kInjection));
  writer_.begin(track, span.begin.ns(), slice);
  writer_.end(track, span.end.ns());
}

void PerfettoExporter::flow(SpanId from, SpanId to, FlowKind kind) {
  if (kind == FlowKind::kServedBy) {
    if (open_ && open_->served == SpanId::kNone) open_->served = to;
    return;
  }
  if (!asynchronous_ || asynchronous_->first.id != to) return;
  // One arrow for each beginning: the first span that it leads to.
  if (ended_flows_.size() >= kMostFlows) ended_flows_.clear();
  const std::uint64_t id = flow_of(from, kind);
  if (ended_flows_.insert(id).second) asynchronous_->second.push_back(id);
}

void PerfettoExporter::count(const ExitSpan& exit, const Pipeline& pipeline) {
  Counters& counters = counters_[exit.thread];
  if (counters.exits_track == 0) {
    Span span;
    span.track.thread = exit.thread;
    span.vcpu = exit.vcpu;
    const std::uint64_t vcpu = vcpu_track(span, pipeline);
    counters.exits_track = writer_.add_counter(vcpu, "exits/s", "");
    for (std::size_t i = 0; i < kParts; ++i) {
      counters.tracks[i] = writer_.add_counter(vcpu, fmt::format("{} %", kPartNames[i]), "%");
    }
    counters.window = exit.end.ns() / kWindow;
  }
  if (exit.end.ns() / kWindow != counters.window) {
    write_counters(counters);
    counters.window = exit.end.ns() / kWindow;
  }
  ++counters.exits;
  for (std::size_t i = 0; i < kParts; ++i) counters.parts[i] += exit.parts[i];
}

void PerfettoExporter::write_counters(Counters& counters) {
  const std::uint64_t at = counters.window * kWindow;
  constexpr double kPerSecond = 1e9 / static_cast<double>(kWindow);
  writer_.count(counters.exits_track, at, static_cast<double>(counters.exits) * kPerSecond);
  for (std::size_t i = 0; i < kParts; ++i) {
    writer_.count(counters.tracks[i], at,
                  static_cast<double>(counters.parts[i]) * 100 / static_cast<double>(kWindow));
  }
  counters.exits = 0;
  counters.parts = {};
}

void PerfettoExporter::lost(const Event& event, const Lost& lost, const Pipeline&) {
  if (lost_track_ == 0) lost_track_ = writer_.add_track(0, "events lost", -8);
  std::uint64_t& track = lost_[event.cpu];
  if (track == 0) track = writer_.add_track(lost_track_, fmt::format("CPU {}", event.cpu));
  const std::string name =
      lost.count == 0 ? "events lost (count unknown)" : fmt::format("{} events lost", lost.count);
  writer_.begin(track, lost.from.ns(), {name, "lost", {}, {}, {}});
  writer_.end(track, lost.to.ns());
}

std::string PerfettoExporter::comm(const Event& event, ThreadId thread) const {
  return thread == ThreadId{} ? fmt::format("swapper/{}", event.cpu)
                              : context_.timeline.source_of(event).comm(thread);
}

void PerfettoExporter::event(const Event& event, const Pipeline&) {
  const auto machine = static_cast<std::uint32_t>(event.machine);
  if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) {
    constexpr std::int64_t kPreempted = 256,
                           kAsleep = 1;  // as the kernel's trace event prints them
    const std::string prev = comm(event, sched->prev);
    writer_.add_switch(machine, event.cpu,
                       {event.at.ns(), number(sched->prev), number(sched->next),
                        sched->runnable ? kPreempted : kAsleep, prev, sched->next_comm});
  } else if (const auto* wakeup = std::get_if<SchedWakeup>(&event.payload)) {
    writer_.add_waking(machine, event.cpu, event.at.ns(), number(event.thread),
                       number(wakeup->thread), comm(event, wakeup->thread));
  } else if (events_ && !std::holds_alternative<Lost>(event.payload) &&
             !std::holds_alternative<GuestCall>(event.payload)) {
    const Source& source = context_.timeline.source_of(event);
    writer_.add_generic(machine, event.cpu, event.at.ns(), number(event.thread),
                        source.event_name(event), source.event_text(event));
  }
}

Result<void> PerfettoExporter::finish(const Pipeline& pipeline) {
  write_open_exit(pipeline);
  write_asynchronous(pipeline);
  for (auto& [thread, counters] : counters_) write_counters(counters);
  if (left_out_ != 0) {
    const std::string text = fmt::format(
        "{} requests and interrupts are left out: more than {} overlapped", left_out_, kMostLanes);
    writer_.instant(about_track_, pipeline.end().ns(), {text, "trapline", {}, {}, {}});
  }
  std::vector<perfetto::Writer::Thread> threads;
  for (const auto& [thread, track] : vcpus_) {
    const ThreadId process = pipeline.processes().of(thread, thread);
    std::string name;
    for (std::size_t i = 0; i < context_.timeline.size() && name.empty(); ++i) {
      const Source& source = context_.timeline.source(i);
      if (source.info().role == Role::kHostKernel) name = source.comm(thread);
    }
    if (process == ThreadId{0}) continue;
    threads.push_back({number(thread), number(process), std::move(name)});
  }
  if (!threads.empty()) writer_.add_threads(0, threads);
  return writer_.finish();
}

Result<std::unique_ptr<Exporter>> make_perfetto(const ExportContext& context,
                                                const ExportOptions& options) {
  if (context.timeline.source(0).info().cycles) {
    return fail(ErrorKind::kUsage,
                "{}: its times are cycles, which Perfetto has no unit for; give --tsc-khz",
                context.timeline.source(0).info().path);
  }
  auto output = OutputFile::create(options.output, options.force);
  if (!output) return tl::unexpected(std::move(output).error());
  return std::make_unique<PerfettoExporter>(context, options, std::move(*output));
}

}  // namespace trapline
