#include "merge/export/perfetto.h"

#include <fmt/format.h>

#include "backend_ftrace/base/text.h"
#include "merge/pass/naming.h"

namespace trapline::perfetto {

Text Texts::reason(const ExitSpan& exit) {
  const auto [place, is_new] = reasons_.try_emplace(packed(exit.reason, exit.source));
  const Source& source = timeline_.source(exit.source);
  if (is_new) place->second = kept(reason_text(source, exit.reason), &Writer::name);
  return place->second.as_text();
}

Text Texts::detail(const ExitSpan& exit) {
  return details_.of(exit, [&] { return kept(detail_text(exit.detail), &Writer::value); })
      .as_text();
}

Text Texts::userspace_reason(const ExitSpan& exit) {
  const std::uint64_t key = std::uint64_t{exit.source} << 32 | exit.userspace_reason;
  const auto [place, is_new] = userspace_reasons_.try_emplace(key);
  const Source& source = timeline_.source(exit.source);
  if (is_new) place->second = kept(source.userspace_reason(exit.userspace_reason), &Writer::value);
  return place->second.as_text();
}

Text Texts::interrupt(std::uint32_t vector) {
  if (interrupts_.size() >= kMostThreads) interrupts_.clear();
  const auto [place, is_new] = interrupts_.try_emplace(vector);
  if (is_new) {
    place->second = kept(vector == kNoVector ? "interrupt" : fmt::format("interrupt {:#x}", vector),
                         &Writer::name);
  }
  return place->second.as_text();
}

std::string Texts::host_comm(ThreadId thread) const {
  std::string name;
  for (std::size_t i = 0; i < timeline_.size() && name.empty(); ++i) {
    const Source& source = timeline_.source(i);
    if (source.info().role == Role::kHostKernel) name = source.comm(thread);
  }
  return name;
}

Text Texts::guest_process(const Event& event, ThreadId task) {
  const std::uint64_t id = writer_.name(fmt::format("{}-{}", comm(event, task), tid_of(task))).id;
  return {id, id == 0 ? std::string_view("[other]") : std::string_view()};
}

Text Texts::name(NameId id, const Pipeline& pipeline) {
  const std::string_view text = pipeline.names()[id];
  if (id >= names_.size()) names_.resize(id + 1);
  if (names_[id] == 0) names_[id] = writer_.name(text).id;
  return {names_[id], text};
}

Text Texts::value(NameId id, const Pipeline& pipeline) {
  const std::string_view text = pipeline.names()[id];
  if (id >= values_.size()) values_.resize(id + 1);
  if (values_[id] == 0) values_[id] = writer_.value(text).id;
  return {values_[id], text};
}

Text Texts::stack(StackId id, const Pipeline& pipeline) {
  if (id >= stacks_.size()) stacks_.resize(id + 1);
  if (stacks_[id] != 0) return {stacks_[id], {}};
  stack_text_ = pipeline.stacks().text(id);
  stacks_[id] = writer_.value(stack_text_).id;
  return {stacks_[id], stack_text_};
}

Texts::Comm& Texts::comm_of(const Event& event, ThreadId thread) {
  // Every CPU has an idle thread, and all of them have the id 0.
  const std::uint64_t key = thread == ThreadId{}
                                ? std::uint64_t{1} << 63 | key_of(event.source, {}) | event.cpu
                                : key_of(event.source, thread);
  const auto found = comms_.find(key);
  if (found != comms_.end()) return found->second;
  if (comms_.size() >= kMostThreads) comms_.clear();
  Comm& comm = comms_[key];
  comm.raw = thread == ThreadId{} ? fmt::format("swapper/{}", event.cpu)
                                  : timeline_.source_of(event).comm(thread);
  comm.printable = printable(comm.raw);
  return comm;
}

const std::string& Texts::comm(const Event& event, ThreadId thread) {
  return comm_of(event, thread).printable;
}

void Texts::note_comm(const Event& event, ThreadId thread, std::string_view comm) {
  Comm& kept = comm_of(event, thread);
  if (kept.raw == comm) return;
  kept = {std::string(comm), printable(comm)};
}

void FusedTracks::close(HostCpu& cpu, Timestamp at) {
  if (cpu.vcpu == ThreadId{}) return;
  if (cpu.has_process) writer_.end(cpu.track, at.ns());
  writer_.end(cpu.track, at.ns());
  if (Vcpu* vcpu = vcpus_.find(cpu.vcpu)) vcpu->on = nullptr;
  cpu.vcpu = {};
  cpu.has_process = false;
}

void FusedTracks::close(GuestCpu& cpu, Timestamp at) {
  if (!cpu.process) return;
  writer_.end(cpu.track, at.ns());
  cpu.process.reset();
}

void FusedTracks::on_host_run(const ThreadChange& change, std::optional<Text> name) {
  const auto found = host_.find(change.cpu);
  if (found != host_.end()) close(found->second, change.at);
  if (!name || change.thread == ThreadId{}) return;
  Vcpu* vcpu = vcpus_.get(change.thread, kMostTracks);
  if (vcpu == nullptr) return;
  if (vcpu->on != nullptr) close(*vcpu->on, change.at);  // the switch that left this CPU was lost
  HostCpu& cpu = host_[change.cpu];
  if (cpu.track == 0) {
    if (host_track_ == 0) host_track_ = writer_.add_track(0, "host CPUs", -7, true);
    cpu.track = writer_.add_track(host_track_, fmt::format("CPU {}", change.cpu),
                                  static_cast<int>(change.cpu), true);
  }
  cpu.vcpu = change.thread;
  vcpu->on = &cpu;
  writer_.begin(cpu.track, change.at.ns(), {*name, of_vcpu_});
  if (vcpu->process) show_process(*vcpu, vcpu->process, change.at);
}

// Shows the guest's process as a slice inside the vCPU's slice on the host's CPU.
void FusedTracks::show_process(Vcpu& vcpu, std::optional<Text> process, Timestamp at) {
  vcpu.process = process;
  if (vcpu.on == nullptr) return;
  HostCpu& cpu = *vcpu.on;
  if (std::exchange(cpu.has_process, process.has_value())) writer_.end(cpu.track, at.ns());
  if (process) writer_.begin(cpu.track, at.ns(), {*process, of_process_});
}

void FusedTracks::on_guest_run(const Event& event, ThreadId task, std::uint64_t track) {
  if (guests_.size() >= kMostTracks) return;
  GuestCpu& cpu = guests_[{event.machine, event.cpu}];
  if (cpu.track == 0) cpu.track = writer_.add_track(track, "guest processes", 1, true);
  close(cpu, event.at);
  cpu.vcpu = event.thread;
  if (task != ThreadId{}) {
    cpu.process = texts_.guest_process(event, task);
    writer_.begin(cpu.track, event.at.ns(), {*cpu.process, of_process_});
  }
  if (event.thread == ThreadId{}) return;
  if (Vcpu* vcpu = vcpus_.get(event.thread, kMostTracks))
    show_process(*vcpu, cpu.process, event.at);
}

void FusedTracks::on_lost(const Event& event) {
  if (!is_guest(event.machine)) {
    const auto found = host_.find(event.cpu);
    if (found != host_.end()) close(found->second, event.at);
    return;
  }
  const auto found = guests_.find({event.machine, event.cpu});
  if (found == guests_.end()) return;
  close(found->second, event.at);
  if (Vcpu* vcpu = vcpus_.find(found->second.vcpu)) show_process(*vcpu, std::nullopt, event.at);
}

void FusedTracks::finish(Timestamp at) {
  for (auto& [number, cpu] : host_) close(cpu, at);
  for (auto& [key, cpu] : guests_) close(cpu, at);
}

}  // namespace trapline::perfetto

namespace trapline {

using perfetto::Annotation;
using perfetto::Slice;

std::uint64_t PerfettoExporter::flow_of(SpanId from, FlowKind kind) {
  return static_cast<std::uint64_t>(from) << 2 | static_cast<std::uint64_t>(kind);
}

PerfettoExporter::PerfettoExporter(const ExportContext& context, const ExportOptions& options,
                                   OutputFile output)
    : context_(context),
      events_(options.events),
      guest_span_(printable(options.guest_span)),
      writer_(std::move(output)),
      texts_(writer_, context_.timeline),
      culprits_(context_.timeline, [](const std::string& text) { return printable(text); }),
      fused_(writer_, texts_) {
  about_track_ = writer_.add_track(0, "trapline", -10);
}

SpanClass PerfettoExporter::selects() const {
  return SpanClass::kExits | SpanClass::kSpans | SpanClass::kFunctions | SpanClass::kRequests |
         SpanClass::kInterrupts | SpanClass::kLosses | SpanClass::kWakeups | SpanClass::kWaits |
         (events_ ? SpanClass::kEvents | SpanClass::kAllEvents : SpanClass::kChanges) |
         (guest_span_.empty() ? SpanClass::kNone : SpanClass::kGuestIntervals);
}

std::uint64_t PerfettoExporter::vm_track(ThreadId process) {
  const auto [place, is_new] = vms_.try_emplace(process, 0);
  if (is_new) {
    const std::string name = process == ThreadId{} ? "VM" : fmt::format("VM {}", tid_of(process));
    place->second = writer_.add_track(0, name, -5, true);
  }
  return place->second;
}

PerfettoExporter::Vcpu& PerfettoExporter::vcpu(ThreadId thread, std::int32_t number_of,
                                               const Pipeline& pipeline) {
  Vcpu* vcpu = vcpus_.get(thread, kMostThreads);
  if (vcpu == nullptr) vcpu = &other_vcpus_;
  if (vcpu->track != 0) return *vcpu;
  const ThreadId process = pipeline.processes().of(thread, {});
  const std::uint64_t vm = vm_track(process);
  const std::string name = vcpu == &other_vcpus_ ? std::string("other vCPUs")
                           : number_of == kNoVcpu
                               ? "vCPU of tid " + tid_text(thread)
                               : fmt::format("vCPU {} (tid {})", number_of, tid_text(thread));
  vcpu->track = writer_.add_track(vm, name, number_of, true);
  vcpu->name =
      writer_.name(process == ThreadId{} ? name : fmt::format("VM {} {}", tid_of(process), name));
  vcpu->name.text = "vCPU";  // used if there were too many names to number
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
  if (const auto most = largest(pipeline.waits()->shares(), Part::kPreempted); most.ns != 0)
    text(words_.preempted_by, writer_.value(culprits_.of(most.culprit, pipeline)));
  if (exit.rip != 0) annotations_.push_back({words_.rip, {}, exit.rip});
  if (exit.injected != kNoVector) annotations_.push_back({words_.injected, {}, exit.injected});
}

void PerfettoExporter::span(const Span& span, const Pipeline& pipeline) {
  if (span.kind == SpanKind::kExit) return open_.start(span);
  if (span.kind == SpanKind::kPart || span.kind == SpanKind::kHandler) {
    if (open_.is_open()) open_.add(span);
    return;
  }
  if (span.kind == SpanKind::kRequestStage || span.kind == SpanKind::kTurnPart) {
    if (asynchronous_ && asynchronous_->span.id == span.parent)
      asynchronous_->children.push_back(span);
    return;
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
    // The interrupt that reports the request's end comes later.
    if (span.kind == SpanKind::kRequest)
      asynchronous_->flows.push_back(flow_of(span.id, FlowKind::kInjection));
  }
}

void PerfettoExporter::begin(const Span& span, const Pipeline& pipeline) {
  write_open_exit(pipeline);
  const std::uint64_t track = function_track(span, pipeline);
  writer_.begin(track, span.begin.ns(), {texts_.name(span.name, pipeline), words_.of_function});
}

// Writes the exit with its parts inside, and QEMU's handlers inside the parts, in nested order.
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
  // A request may name this exit as the one of its notify, long after the exit is written.
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
    // The flow goes on: from the exit to the device's handler of the queue, and from there to the
    // requests.
    asynchronous_->flows.push_back(id);
    return;
  }
  // A request has one arrow, to its first interrupt: ended_flows_ holds requests that have theirs.
  if (ended_flows_.size() >= kMostFlows) ended_flows_.clear();
  if (ended_flows_.insert(id).second) asynchronous_->ending_flows.push_back(id);
}

void PerfettoExporter::count(const ExitSpan& exit, const Pipeline& pipeline) {
  Vcpu& of = vcpu(exit.thread, exit.vcpu, pipeline);
  Counters& counters = of.counters;
  if (counters.exits_track == 0) {
    counters.exits_track = writer_.add_track(of.track, "exits/s", 0, false, "");
    const States known = pipeline.exits().model().known_states();
    for (std::size_t i = 0; i < kParts; ++i) {
      if (!known[i]) continue;
      counters.tracks[i] =
          writer_.add_track(of.track, fmt::format("{} %", kPartNames[i]), 0, false, "%");
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

// The functions below write the spans that are not on a vCPU's track: requests with their stages,
// interrupts, turns of vhost workers, the guest's intervals, wake-ups.

// Slices of one track must not overlap, so this returns a lane that is free when the span begins,
// or a new one. Spans come in the order of their ends, so the spans of a lane have ended before.
std::uint64_t PerfettoExporter::lane(TrackKind kind, ThreadId process, Timestamp begin,
                                     Timestamp end, std::string_view name) {
  std::vector<Lane>& lanes = lanes_[{kind, process}];
  for (Lane& lane : lanes) {
    if (lane.busy_until > begin) continue;
    lane.busy_until = end;
    return lane.track;
  }
  if (lanes.size() >= kMostLanes) {
    ++left_out_;
    return 0;
  }
  lanes.push_back({writer_.add_track(vm_track(process), name, 100), end});
  return lanes.back().track;
}

// Writes the request, interrupt or turn in asynchronous_, which is held back because the flows that
// lead to a span come after the span.
void PerfettoExporter::write_asynchronous(const Pipeline& pipeline) {
  if (!asynchronous_) return;
  const auto [span, children, flows, ending_flows] = std::move(*asynchronous_);
  asynchronous_.reset();
  if (span.kind == SpanKind::kTurn) return write_turn(span, children, flows);
  const bool request = span.kind == SpanKind::kRequest;
  const std::uint64_t track = lane(span.track.kind, span.track.thread, span.begin, span.end,
                                   request ? "requests" : "interrupts");
  if (track == 0) return;
  const perfetto::Text name =
      request ? texts_.name(span.name, pipeline) : texts_.interrupt(span.number);
  const std::uint64_t category = request ? words_.of_request : words_.of_interrupt;
  writer_.begin(track, span.begin.ns(), {name, category, {}, flows, ending_flows});
  for (const Span& stage : children)
    write_slice(track, stage, kRequestStageNames[stage.number], words_.of_stage);
  writer_.end(track, span.end.ns());
}

void PerfettoExporter::write_slice(std::uint64_t track, const Span& span, std::string_view name,
                                   std::uint64_t category) {
  writer_.begin(track, span.begin.ns(), {writer_.name(name), category});
  writer_.end(track, span.end.ns());
}

// Writes the turn on the worker's own track, where turns never overlap.
void PerfettoExporter::write_turn(const Span& span, const std::vector<Span>& parts,
                                  const std::vector<std::uint64_t>& flows) {
  const ThreadId worker = span.track.thread;
  const ThreadId process{static_cast<std::int32_t>(span.track.task)};
  std::uint64_t& track = worker_tracks_[worker];
  if (track == 0) {
    if (worker_tracks_.size() > kMostThreads) return;
    const std::string name = fmt::format("{} (tid {})", texts_.host_comm(worker), tid_text(worker));
    track = writer_.add_track(vm_track(process), name, 95);
  }
  const std::string_view name = span.number != 0 ? "serves a notify" : "turn";
  writer_.begin(track, span.begin.ns(), {writer_.name(name), words_.of_vhost, {}, flows, {}});
  for (const Span& part : parts)
    write_slice(track, part, kTurnPartNames[part.number], words_.of_turn_part);
  writer_.end(track, span.end.ns());
}

// Writes the interval into a lane: intervals of two tasks overlap, and so do interrupts in
// interrupts.
void PerfettoExporter::guest_interval(const GuestInterval& interval, const Pipeline& pipeline) {
  write_open_exit(pipeline);
  write_asynchronous(pipeline);
  const ThreadId process = pipeline.processes().of(interval.thread, {});
  const auto state = pipeline.vcpu(interval.thread);
  const std::int32_t number_of = state ? state->vcpu : kNoVcpu;
  const std::uint64_t track = lane(TrackKind::kGuestSpans, process, interval.begin, interval.end,
                                   fmt::format("guest spans: {}", guest_span_));
  if (track == 0) return;
  const std::string name = interval.what.empty() ? guest_span_ : printable(interval.what);
  const std::string on =
      number_of == kNoVcpu ? "tid " + tid_text(interval.thread) : fmt::format("vCPU {}", number_of);
  const Annotation where{words_.vcpu, writer_.value(on)};
  writer_.begin(track, interval.begin.ns(),
                {writer_.name(name), words_.of_guest_span, {&where, 1}, {}, {}});
  for (const VcpuPiece& piece : interval.pieces) {
    const Annotation who{words_.culprit, piece.has_culprit()
                                             ? writer_.value(culprits_.of(piece.culprit, pipeline))
                                             : perfetto::Text{}};
    Slice slice{piece.part ? words_.parts[static_cast<std::size_t>(*piece.part)] : words_.guest,
                words_.of_guest_span_part};
    if (piece.has_culprit()) slice.annotations = {&who, 1};
    writer_.begin(track, piece.begin.ns(), slice);
    writer_.end(track, piece.end.ns());
  }
  writer_.end(track, interval.end.ns());
}

// Writes the wake-up on the track of the vCPU that woke the thread, else on a track of the VM.
void PerfettoExporter::write_wakeup(const Span& span, const Pipeline& pipeline) {
  const ThreadId woken{static_cast<std::int32_t>(span.number)}, waker = span.track.thread;
  const Vcpu* of_waker = vcpus_.find(waker);
  std::uint64_t track = of_waker == nullptr ? 0 : of_waker->track;
  if (track == 0) {
    const ThreadId process = pipeline.processes().of(woken, {});
    std::uint64_t& of_vm = wakeup_tracks_[process];
    if (of_vm == 0) of_vm = writer_.add_track(vm_track(process), "wake-ups", 90);
    track = of_vm;
  }
  const std::string who = waker == ThreadId{}
                              ? "interrupt"
                              : fmt::format("{}-{}", texts_.host_comm(waker), tid_of(waker));
  const std::string whom =
      span.vcpu == kNoVcpu ? "tid " + tid_text(woken) : fmt::format("vCPU {}", span.vcpu);
  const perfetto::Text name = writer_.name(fmt::format("{} wakes {}", who, whom));
  const std::uint64_t flow = flow_of(span.id, FlowKind::kWakeup);
  writer_.instant(track, span.begin.ns(), {name, words_.of_wakeup, {}, {&flow, 1}});
}

// Facts about the recording itself, and the native events of its kernels.

// Adds the facts about the recording, as instants where it begins and as the trace's system
// information.
void PerfettoExporter::add_metadata(std::uint64_t at, const Timeline& timeline) {
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const Source& source = timeline.source(i);
    const SourceInfo& info = source.info();
    std::vector<std::pair<std::string, std::string>> facts = source.facts();
    facts.emplace_back("kind", info.kind);
    facts.emplace_back("clock", info.clock);
    if (info.resolution_ns)
      facts.emplace_back("resolution", fmt::format("{} ns", *info.resolution_ns));
    const auto& error = info.aligned.error_ns;
    facts.emplace_back("aligned by", info.aligned.text());
    facts.emplace_back("clock error bound", error ? fmt::format("{} ns", *error) : "not known");
    std::vector<Annotation> annotations;
    for (const auto& [name, text] : facts) {
      annotations.push_back({writer_.key(name), {0, text}});
      if (name != "host" || i != 0) continue;
      const auto words = split(text, ' ');  // "Linux NAME RELEASE VERSION… MACHINE", trace-cmd's
      if (words.size() < 4) continue;
      const std::string_view machine = words.back();
      writer_.add_system(words[0], words[2], trimmed({words[3].begin(), machine.begin()}), machine);
    }
    writer_.instant(about_track_, at, {writer_.name(info.path), words_.of_trapline, annotations});
  }
  for (const std::string& note : context_.notes)
    writer_.instant(about_track_, at, {writer_.name(note), words_.of_trapline});
}

std::uint64_t PerfettoExporter::own_time(const Event& event) {
  const std::uint64_t at = event.at.ns();
  if (!is_guest(event.machine)) return at;
  const ClockMap& map = context_.timeline.source_of(event).info().aligned.map;
  GuestClock& clock = clocks_[event.machine];
  const std::uint64_t time = clock.own + (at - clock.at), off = map(time) - at + kMostOff;
  if (clock.last != 0 && off <= 2 * kMostOff) return clock.last = time;
  // clock.last is the time of the guest's last event in the trace. add_clocks() with a time that is
  // not after it would move that event.
  const std::uint64_t own = map.source_of(at);
  if (own <= clock.last) return clock.last = time;
  writer_.add_clocks(static_cast<std::uint32_t>(event.machine), own, at);
  clock = {own, at, own};
  return own;
}

void PerfettoExporter::on_switch(const Event& event, const ThreadChange& leaves,
                                 const ThreadChange& runs, const Pipeline& pipeline) {
  // The values of prev_state in the kernel's sched_switch.
  constexpr std::int64_t kPreempted = 256, kAsleep = 1;
  const ThreadId prev = leaves.thread, next = runs.thread;
  texts_.note_comm(event, next, runs.name);
  writer_.add_switch(
      static_cast<std::uint32_t>(event.machine), event.cpu,
      {own_time(event), tid_of(prev), tid_of(next), leaves.sleeps() ? kAsleep : kPreempted,
       texts_.comm(event, prev), texts_.comm(event, next)});
  if (is_guest(event.machine)) {
    const bool is_known = event.thread != ThreadId{};
    const auto guest_cpu = static_cast<std::int32_t>(event.cpu);
    const std::uint64_t track =
        is_known ? vcpu(event.thread, guest_cpu, pipeline).track : vm_track({});
    return fused_.on_guest_run(event, next, track);
  }
  const Vcpu* vcpu = vcpus_.find(next);
  fused_.on_host_run(runs, vcpu == nullptr ? std::nullopt : std::optional(vcpu->name));
}

void PerfettoExporter::event(const Event& event, const Pipeline& pipeline) {
  const auto machine = static_cast<std::uint32_t>(event.machine);
  const ThreadChanges changes = pipeline.changes();
  const auto kind = changes.empty() ? ThreadChange::Kind::kMoves : changes.front().kind;
  if (kind == ThreadChange::Kind::kLeaves) {
    on_switch(event, changes.front(), changes.back(), pipeline);
  } else if (kind == ThreadChange::Kind::kWoken) {
    const ThreadId woken = changes.front().thread;
    writer_.add_waking(machine, event.cpu, own_time(event), tid_of(event.thread), tid_of(woken),
                       texts_.comm(event, woken));
  } else if (events_ && !std::holds_alternative<Lost>(event.payload) &&
             !std::holds_alternative<GuestCall>(event.payload)) {
    const Source& source = context_.timeline.source_of(event);
    writer_.add_generic(machine, event.cpu, own_time(event), tid_of(event.thread),
                        source.event_name(event), source.event_text(event));
  }
}

Result<void> PerfettoExporter::finish(const Naming& names) {
  const Pipeline& pipeline = names.pipeline;
  write_open_exit(pipeline);
  write_asynchronous(pipeline);
  fused_.finish(pipeline.end());
  for (auto& [thread, vcpu] : vcpus_.entries())
    if (vcpu.counters.exits_track != 0) write_counters(vcpu.counters);
  if (left_out_ != 0) {
    const std::string text = fmt::format(
        "{} requests and interrupts are left out: more than {} overlapped", left_out_, kMostLanes);
    writer_.instant(about_track_, pipeline.end().ns(), {writer_.name(text), words_.of_trapline});
  }
  add_thread_names(names);
  add_metadata(pipeline.begin().value_or(Timestamp()).ns(), names.timeline);
  return writer_.finish();
}

void PerfettoExporter::add_thread_names(const Naming& names) {
  std::vector<perfetto::Writer::Thread> threads;
  for (const auto& [thread, vcpu] : vcpus_.entries()) {
    const ThreadId process = names.processes.of(thread, thread);
    if (process == ThreadId{0}) continue;
    threads.push_back({tid_of(thread), tid_of(process), texts_.host_comm(thread)});
  }
  if (!threads.empty()) writer_.add_threads(threads);
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
