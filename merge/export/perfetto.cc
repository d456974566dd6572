#include "merge/export/perfetto.h"

#include <fmt/format.h>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

using perfetto::Annotation;
using perfetto::Slice;

}  // namespace

std::uint64_t PerfettoExporter::flow_of(SpanId from, FlowKind kind) {
  return static_cast<std::uint64_t>(from) << 2 | static_cast<std::uint64_t>(kind);
}

PerfettoExporter::Words::Words(perfetto::Writer& writer)
    : of_guest(writer.category("guest")),
      of_exit(writer.category("exit")),
      of_part(writer.category("part")),
      of_handler(writer.category("qemu")),
      of_function(writer.category("function")),
      of_request(writer.category("request")),
      of_stage(writer.category("request stage")),
      of_vhost(writer.category("vhost")),
      of_turn_part(writer.category("vhost part")),
      of_guest_span(writer.category("guest span")),
      of_guest_span_part(writer.category("guest span part")),
      of_interrupt(writer.category("interrupt")),
      of_wakeup(writer.category("wakeup")),
      of_loss(writer.category("lost")),
      of_trapline(writer.category("trapline")),
      detail(writer.key("detail")),
      device(writer.key("device")),
      handler(writer.key("handler")),
      function(writer.key("function")),
      stack(writer.key("stack")),
      user_space(writer.key("to user space")),
      preempted_by(writer.key("preempted by")),
      rip(writer.key("rip")),
      injected(writer.key("injected vector")),
      event(writer.key("event")),
      culprit(writer.key("culprit")),
      vcpu(writer.key("vCPU")),
      guest(writer.name("guest")) {
  for (std::size_t i = 0; i < kParts; ++i) parts[i] = writer.name(kPartNames[i]);
}

PerfettoExporter::PerfettoExporter(const ExportContext& context, const ExportOptions& options,
                                   OutputFile output)
    : context_(context),
      events_(options.events),
      guest_span_(printable(options.guest_span)),
      writer_(std::move(output)),
      words_(writer_),
      texts_(writer_, context_.timeline),
      culprits_(context_.timeline, [](const std::string& text) { return printable(text); }),
      fused_(writer_, texts_) {
  about_track_ = writer_.add_track(0, "trapline", -10);
}

SpanClass PerfettoExporter::selects() const {
  return SpanClass::kEvents | SpanClass::kExits | SpanClass::kSpans | SpanClass::kFunctions |
         SpanClass::kRequests | SpanClass::kInterrupts | SpanClass::kLosses | SpanClass::kWakeups |
         (events_ ? SpanClass::kAllEvents | SpanClass::kTexts : SpanClass::kNone) |
         (guest_span_.empty() ? SpanClass::kNone : SpanClass::kGuestIntervals);
}

std::uint64_t PerfettoExporter::vm_track(ThreadId process) {
  const auto [place, is_new] = vms_.try_emplace(process, 0);
  if (is_new) {
    const std::string name =
        process == ThreadId{} ? "VM" : fmt::format("VM {}", perfetto::number(process));
    place->second = writer_.add_track(0, name, -5, true);
  }
  return place->second;
}

PerfettoExporter::Vcpu& PerfettoExporter::vcpu(ThreadId thread, std::int32_t number_of,
                                               const Pipeline& pipeline) {
  Vcpu* vcpu = vcpus_.get(thread, kMostThreads);
  if (vcpu == nullptr) vcpu = &other_vcpus_;
  if (vcpu->track != 0) return *vcpu;
  const std::uint64_t vm = vm_track(pipeline.processes().of(thread, {}));
  const std::string name =
      vcpu == &other_vcpus_  ? std::string("other vCPUs")
      : number_of == kNoVcpu ? fmt::format("vCPU of tid {}", perfetto::number(thread))
                             : fmt::format("vCPU {} (tid {})", number_of, perfetto::number(thread));
  vcpu->track = writer_.add_track(vm, name, number_of, true);
  const ThreadId process = pipeline.processes().of(thread, {});
  vcpu->name = writer_.name(
      process == ThreadId{} ? name : fmt::format("VM {} {}", perfetto::number(process), name));
  vcpu->name.text = "vCPU";  // where there were too many to number
  return *vcpu;
}

std::uint64_t PerfettoExporter::function_track(const Span& span, const Pipeline& pipeline) {
  // A task that moves between vCPUs stays on one track.
  const ThreadId thread = span.track.task == 0 ? span.track.thread : ThreadId{};
  const auto key = std::tuple{span.track.machine, thread, span.track.task};
  const auto [place, is_new] = functions_.try_emplace(key, 0);
  if (is_new) {
    const bool of_vcpu = span.track.thread != ThreadId{};
    const std::uint64_t parent =
        of_vcpu ? vcpu(span.track.thread, span.vcpu, pipeline).track : vm_track({});
    const auto task = static_cast<std::uint32_t>(span.track.task);
    place->second = writer_.add_track(
        parent, task == 0 ? "guest functions" : fmt::format("guest task {}", task), 1, true);
  }
  return place->second;
}

void PerfettoExporter::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  write_open_exit(pipeline);
  write_asynchronous(pipeline);
  describe(exit, pipeline);
  count(exit, pipeline);
}

void PerfettoExporter::describe(const ExitSpan& exit, const Pipeline& pipeline) {
  reason_ = texts_.reason(exit);
  served_ = SpanId::kNone;
  wakeups_.clear();
  writes_ = exit.detail.access == Access::kWrite;
  annotations_.clear();
  const auto text = [this](std::uint64_t key, perfetto::Text value) {
    annotations_.push_back({key, value});
  };
  if (exit.detail.kind != DetailKind::kNone) text(words_.detail, texts_.detail(exit));
  if (exit.device != kNoName) text(words_.device, texts_.value(exit.device, pipeline));
  if (exit.vmm_event != kNoName) text(words_.handler, texts_.value(exit.vmm_event, pipeline));
  const StackId stack = pipeline.stack_of(exit);
  if (stack != kNoStack) {
    text(words_.function, texts_.value(pipeline.stacks().innermost(stack), pipeline));
    text(words_.stack, texts_.stack(stack, pipeline));
  }
  if (exit.userspace_reason != ExitSpan::kNoUserspaceReason)
    text(words_.user_space, texts_.userspace_reason(exit));
  if (exit.preempted_by != ThreadId{})
    text(words_.preempted_by, texts_.thread(exit.source, exit.preempted_by));
  if (exit.rip != 0) annotations_.push_back({words_.rip, {}, exit.rip});
  if (exit.injected != kNoVector) annotations_.push_back({words_.injected, {}, exit.injected});
}

void PerfettoExporter::span(const Span& span, const Pipeline& pipeline) {
  switch (span.kind) {
    case SpanKind::kExit:
      open_.start(span);
      return;
    case SpanKind::kPart:
    case SpanKind::kHandler:
      if (open_.is_open()) open_.add(span);
      return;
    case SpanKind::kRequestStage:
    case SpanKind::kTurnPart:
      if (asynchronous_ && asynchronous_->span.id == span.parent)
        asynchronous_->children.push_back(span);
      return;
    default:
      break;
  }
  write_open_exit(pipeline);
  write_asynchronous(pipeline);
  if (span.kind == SpanKind::kGuest) {
    const std::uint64_t track = vcpu(span.track.thread, span.vcpu, pipeline).track;
    writer_.begin(track, span.begin.ns(), {words_.guest, words_.of_guest});
    writer_.end(track, span.end.ns());
  } else if (span.kind == SpanKind::kFunction) {
    writer_.end(function_track(span, pipeline), span.end.ns());
  } else if (span.kind == SpanKind::kWakeup) {
    write_wakeup(span, pipeline);
  } else {
    asynchronous_ = {span, {}, {}, {}};
    // An interrupt that tells of its end comes later.
    if (span.kind == SpanKind::kRequest)
      asynchronous_->flows.push_back(flow_of(span.id, FlowKind::kInjection));
  }
}

void PerfettoExporter::begin(const Span& span, const Pipeline& pipeline) {
  write_open_exit(pipeline);
  const std::uint64_t track = function_track(span, pipeline);
  writer_.begin(track, span.begin.ns(), {texts_.name(span.name, pipeline), words_.of_function});
}

// The exit with its parts inside, and QEMU's handlers inside the parts, in nested order.
void PerfettoExporter::write_open_exit(const Pipeline& pipeline) {
  if (!open_.is_open()) return;
  const Span& exit = open_.exit();
  const std::uint64_t track = vcpu(exit.track.thread, exit.vcpu, pipeline).track;
  std::size_t woken = 0;
  open_.walk(
      [&](const Span& span) {
        if (span.kind == SpanKind::kPart) {
          Slice slice{words_.parts[static_cast<std::size_t>(span.part)], words_.of_part};
          if (woken < wakeups_.size() && wakeups_[woken].to == span.id)
            slice.ending_flows = {&wakeups_[woken++].number, 1};
          writer_.begin(track, span.begin.ns(), slice);
        } else if (span.kind == SpanKind::kHandler) {
          begin_handler(track, span, pipeline);
        } else {
          begin_exit(track, span);
        }
      },
      [&](const Span& span) { writer_.end(track, span.end.ns()); });
  open_.close();
}

void PerfettoExporter::begin_exit(std::uint64_t track, const Span& span) {
  std::array<std::uint64_t, 2> flows{};
  std::size_t count = 0;
  if (served_ != SpanId::kNone) flows[count++] = flow_of(span.id, FlowKind::kServedBy);
  // A request may name it as the exit with its notify, long after this is written.
  if (writes_) flows[count++] = flow_of(span.id, FlowKind::kNotify);
  const Slice slice{reason_, words_.of_exit, annotations_, {flows.data(), count}, {}};
  writer_.begin(track, span.begin.ns(), slice);
}

void PerfettoExporter::begin_handler(std::uint64_t track, const Span& span,
                                     const Pipeline& pipeline) {
  const NameId shown = span.region != kNoName ? span.region : span.name;
  const Annotation event{words_.event, texts_.value(span.name, pipeline)};
  const std::uint64_t flow = flow_of(span.parent, FlowKind::kServedBy);
  Slice slice{texts_.name(shown, pipeline), words_.of_handler, {&event, 1}, {}, {}};
  if (span.id == served_) slice.ending_flows = {&flow, 1};
  writer_.begin(track, span.begin.ns(), slice);
}

void PerfettoExporter::flow(SpanId from, SpanId to, FlowKind kind) {
  if (kind == FlowKind::kServedBy) {
    if (open_.is_open() && served_ == SpanId::kNone) served_ = to;
    return;
  }
  const std::uint64_t id = flow_of(from, kind);
  if (kind == FlowKind::kWakeup) {
    if (open_.is_open()) wakeups_.push_back({to, id});
    return;
  }
  if (!asynchronous_ || asynchronous_->span.id != to) return;
  if (kind == FlowKind::kNotify) {
    // It goes on: from the exit to the device's handler of the queue, and to the requests therein.
    asynchronous_->flows.push_back(id);
    return;
  }
  // One arrow for each request: to the first interrupt that it leads to.
  if (ended_flows_.size() >= kMostFlows) ended_flows_.clear();
  if (ended_flows_.insert(id).second) asynchronous_->ending_flows.push_back(id);
}

void PerfettoExporter::count(const ExitSpan& exit, const Pipeline& pipeline) {
  Vcpu& of = vcpu(exit.thread, exit.vcpu, pipeline);
  Counters& counters = of.counters;
  if (counters.exits_track == 0) {
    counters.exits_track = writer_.add_counter(of.track, "exits/s", "");
    const States known = pipeline.exits().model().known_states();
    for (std::size_t i = 0; i < kParts; ++i) {
      if (!known[i]) continue;
      counters.tracks[i] = writer_.add_counter(of.track, fmt::format("{} %", kPartNames[i]), "%");
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
    if (counters.tracks[i] == 0) continue;
    writer_.count(counters.tracks[i], at,
                  static_cast<double>(counters.parts[i]) * 100 / static_cast<double>(kWindow));
  }
  counters.exits = 0;
  counters.parts = {};
}

void PerfettoExporter::lost(const Event& event, const Lost& lost, const Pipeline&) {
  fused_.on_lost(event);
  if (lost_track_ == 0) lost_track_ = writer_.add_track(0, "events lost", -8);
  std::uint64_t& track = lost_[event.cpu];
  if (track == 0) track = writer_.add_track(lost_track_, fmt::format("CPU {}", event.cpu));
  const std::string name =
      lost.count == 0 ? "events lost (count unknown)" : fmt::format("{} events lost", lost.count);
  writer_.begin(track, lost.from.ns(), {writer_.name(name), words_.of_loss});
  writer_.end(track, lost.to.ns());
}

}  // namespace trapline
