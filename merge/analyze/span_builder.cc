#include "merge/analyze/span_builder.h"

#include <algorithm>
#include <utility>

#include "merge/analyze/pipeline.h"

namespace trapline {
namespace {

// Returns whether the waking thread itself caused the wake-up. An interrupt may hit any thread, and
// the idle thread carries out wake-ups for other CPUs.
bool is_of_its_thread(const ThreadChange& wakeup) {
  return wakeup.context == WakeContext::kThread && wakeup.other != ThreadId{};
}

// Makes a span without an id on the parent's track.
Span child_of(const Span& parent, SpanKind kind, Timestamp begin, Timestamp end) {
  Span child = parent;
  child.id = SpanId::kNone;
  child.parent = parent.id;
  child.kind = kind;
  child.begin = begin;
  child.end = end;
  return child;
}

}  // namespace

SpanId SpanBuilder::emit(Span& span) {
  if (span.id == SpanId::kNone) span.id = next_id();
  for (SpanSink* sink : sinks_) sink->span(span, *pipeline_);
  return span.id;
}

void SpanBuilder::flow(SpanId from, SpanId to, FlowKind kind) {
  for (SpanSink* sink : sinks_) sink->flow(from, to, kind);
}

void SpanBuilder::Remembered::add(Timestamp at, SpanId id) {
  spans_.insert_or_assign(spans_.end(), at, id);
  if (spans_.size() > kMostRemembered) spans_.erase(spans_.begin());
}

SpanId SpanBuilder::Remembered::find(Timestamp at, bool forget) {
  const auto found = spans_.find(at);
  if (found == spans_.end()) return SpanId::kNone;
  const SpanId id = found->second;
  if (forget) spans_.erase(found);
  return id;
}

void SpanBuilder::on_guest_run(const GuestRun& run) {
  Span span;
  span.kind = SpanKind::kGuest;
  span.track.thread = run.thread;
  span.vcpu = run.vcpu;
  span.begin = run.begin;
  span.end = run.end;
  emit(span);
}

SpanId SpanBuilder::exit_of(Timestamp begin) {
  if (const SpanId exit = exits_.find(begin); exit != SpanId::kNone) return exit;
  if (const SpanId exit = open_exits_.find(begin); exit != SpanId::kNone) return exit;
  const std::vector<VcpuState> open = pipeline_->open();
  if (std::ranges::find(open, begin, &VcpuState::begin) == open.end()) return SpanId::kNone;
  const SpanId id = next_id();
  open_exits_.add(begin, id);
  return id;
}

void SpanBuilder::on_exit(const ExitSpan& exit) {
  Span span;
  // Only an exit with a write can carry a guest's notify.
  const bool writes = exit.detail.access == Access::kWrite;
  if (writes) span.id = open_exits_.find(exit.start, true);
  span.kind = SpanKind::kExit;
  span.track.thread = exit.thread;
  span.vcpu = exit.vcpu;
  span.begin = exit.start;
  span.end = exit.end;
  emit(span);
  if (writes) exits_.add(exit.start, span.id);
  emit_parts(exit, span);
  emit_handlers(exit, span);
}

void SpanBuilder::emit_parts(const ExitSpan& exit, const Span& parent) {
  std::vector<At>* wakeups = wakeups_.find(exit.thread);
  std::size_t next = 0;
  bool slept = false;
  Span part = child_of(parent, SpanKind::kPart, {}, {});
  for (const PartInterval& interval : exit.intervals) {
    part.id = SpanId::kNone;
    part.begin = interval.begin;
    part.end = interval.end;
    part.part = interval.part;
    emit(part);
    const bool sleeps = interval.part == Part::kBlocked || interval.part == Part::kHalted;
    if (std::exchange(slept, sleeps) && wakeups != nullptr) {
      while (next < wakeups->size() && (*wakeups)[next].at < part.begin) ++next;
      if (next < wakeups->size() && (*wakeups)[next].at == part.begin)
        flow((*wakeups)[next].id, part.id, FlowKind::kWakeup);
    }
  }
  if (wakeups != nullptr) wakeups->clear();
}

void SpanBuilder::on(ThreadChanges changes) {
  if (changes.empty() || !changes.front().wakes()) return;
  const ThreadChange& change = changes.front();
  const ThreadId woken = change.thread;
  const auto vcpu = pipeline_->vcpu(woken);
  // Outside an exit there is no part that the wake-up could lead to.
  const bool in_exit =
      vcpu && (vcpu->where == VcpuState::Where::kKernel || vcpu->where == VcpuState::Where::kUser);
  if (!in_exit || !vcpu->off_cpu || !pipeline_->counts(woken)) return;
  std::vector<At>* wakeups = wakeups_.get(woken, kMostThreads);
  if (wakeups == nullptr || wakeups->size() >= ExitTracker::kMostIntervals) return;
  // sched_waking and then sched_wakeup report the same wake-up.
  if (!wakeups->empty() && wakeups->back().at >= *vcpu->off_cpu) return;
  Span span;
  span.kind = SpanKind::kWakeup;
  span.track = {TrackKind::kWaker, MachineId::kHost,
                is_of_its_thread(change) ? change.other : ThreadId{}, 0};
  span.begin = span.end = change.at;
  span.vcpu = vcpu->vcpu;
  span.number = static_cast<std::uint32_t>(woken);
  wakeups->push_back({change.at, emit(span)});
}

void SpanBuilder::emit_handlers(const ExitSpan& exit, const Span& parent) {
  for (std::size_t i = 0; i < exit.handlers.size(); ++i) {
    const HandlerEvent& event = exit.handlers[i];
    // Finds the user time that contains the event; QEMU's events outside any are points.
    const auto in =
        std::find_if(exit.intervals.begin(), exit.intervals.end(), [&](const auto& part) {
          return part.part == Part::kUser && part.begin <= event.at && event.at <= part.end;
        });
    Span span = child_of(parent, SpanKind::kHandler, event.at, event.at);
    span.name = event.event;
    span.region = event.region;
    if (in != exit.intervals.end() && event.region != kNoName) {
      if (event.ends) {
        span.begin = in->begin;
        if (i > 0) span.begin = std::max(span.begin, exit.handlers[i - 1].at);
      } else {
        span.end = in->end;
        if (i + 1 < exit.handlers.size()) span.end = std::min(span.end, exit.handlers[i + 1].at);
      }
    }
    emit(span);
    const bool served =
        exit.device != kNoName ? event.region == exit.device : event.event == exit.vmm_event;
    if (served) flow(parent.id, span.id, FlowKind::kServedBy);
  }
}

Span SpanBuilder::span_of(const FunctionCall& call) const {
  Span span;
  span.kind = SpanKind::kFunction;
  span.track = {TrackKind::kGuestTask, call.machine, call.thread, call.task};
  span.begin = call.begin;
  span.end = call.end;
  span.complete = call.complete;
  span.name = pipeline_->stacks().innermost(call.stack);
  span.number = call.depth;
  return span;
}

void SpanBuilder::on_calls(const std::vector<FunctionCall>& calls) {
  for (const FunctionCall& call : calls) {
    Span span = span_of(call);
    emit(span);
  }
}

void SpanBuilder::on_call(const FunctionCall& call) {
  const Span span = span_of(call);
  for (SpanSink* sink : sinks_) sink->begin(span, *pipeline_);
}

void SpanBuilder::on_request(const RequestSpan& request, ThreadId process, NameId name) {
  Span span;
  span.kind = SpanKind::kRequest;
  span.track = {TrackKind::kRequests, MachineId::kHost, process, 0};
  span.begin = request.start;
  span.end = request.end;
  span.name = name;
  span.number = static_cast<std::uint32_t>(request.spec);
  emit(span);
  requests_.add(request.end, span.id);
  if (request.notified) notified_by(*request.notified, span.id);
  if (request.block) emit_stages(request, span);
}

void SpanBuilder::notified_by(Timestamp notify, SpanId span) {
  const SpanId exit = exit_of(notify);
  if (exit != SpanId::kNone) flow(exit, span, FlowKind::kNotify);
}

void SpanBuilder::emit_child(const Span& parent, SpanKind kind, Timestamp begin, Timestamp end,
                             std::uint32_t number) {
  Span child = child_of(parent, kind, begin, end);
  child.number = number;
  emit(child);
}

void SpanBuilder::emit_stages(const RequestSpan& request, const Span& parent) {
  using Stage = RequestStageKind;
  const BlockTimes& block = *request.block;
  const auto stage = [&](Stage kind, Timestamp begin, Timestamp end) {
    emit_child(parent, SpanKind::kRequestStage, begin, end, static_cast<std::uint32_t>(kind));
  };
  stage(block.queued ? Stage::kToBio : Stage::kToDisk, request.start,
        block.queued.value_or(block.issued));
  if (block.queued) stage(Stage::kBlockLayer, *block.queued, block.issued);
  stage(Stage::kDisk, block.issued, block.completed);
  stage(Stage::kToEnd, block.completed, request.end);
}

void SpanBuilder::on_turn(const VhostTurn& turn) {
  Span span;
  span.kind = SpanKind::kTurn;
  span.track = {TrackKind::kWorker, MachineId::kHost, turn.worker,
                static_cast<std::uint32_t>(turn.process)};
  span.begin = turn.woken;
  span.end = turn.end;
  span.number = turn.notify ? 1 : 0;
  emit(span);
  if (turn.notify) notified_by(*turn.notify, span.id);
  for (const VhostTurn::Piece& piece : turn.pieces) {
    emit_child(span, SpanKind::kTurnPart, piece.begin, piece.end,
               static_cast<std::uint32_t>(piece.part));
  }
}

void SpanBuilder::on_delivered(const Delivered& delivered) {
  const SpanId request = requests_.find(delivered.request.end);
  if (request != SpanId::kNone) injections_.add(delivered.injected, request);
}

void SpanBuilder::on_interrupt(const IrqSpan& interrupt, ThreadId process) {
  Span span;
  span.kind = SpanKind::kInterrupt;
  span.track = {TrackKind::kInterrupts, MachineId::kHost, process, 0};
  span.begin = interrupt.raised;
  span.end = interrupt.ended     ? *interrupt.ended
             : interrupt.entered ? *interrupt.entered
                                 : interrupt.injected.value_or(interrupt.raised);
  span.complete = interrupt.ended.has_value();
  span.number = interrupt.vector;
  emit(span);
  if (!interrupt.injected) return;
  const SpanId request = injections_.find(*interrupt.injected);
  if (request != SpanId::kNone) flow(request, span.id, FlowKind::kInjection);
}

}  // namespace trapline
