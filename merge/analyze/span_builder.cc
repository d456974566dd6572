#include "merge/analyze/span_builder.h"

#include <algorithm>

#include "merge/analyze/pipeline.h"

namespace trapline {

SpanId SpanBuilder::emit(Span& span) {
  if (span.id == SpanId::kNone) span.id = next_id();
  for (SpanSink* sink : sinks_) sink->span(span, *pipeline_);
  return span.id;
}

void SpanBuilder::flow(SpanId from, SpanId to, FlowKind kind) {
  for (SpanSink* sink : sinks_) sink->flow(from, to, kind);
}

void SpanBuilder::remember(Remembered& spans, Timestamp at, SpanId id) {
  spans.insert_or_assign(spans.end(), at, id);
  if (spans.size() > kMostRemembered) spans.erase(spans.begin());
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

void SpanBuilder::on_exit(const ExitSpan& exit) {
  Span span;
  span.kind = SpanKind::kExit;
  span.track.thread = exit.thread;
  span.vcpu = exit.vcpu;
  span.begin = exit.start;
  span.end = exit.end;
  emit(span);
  // A notify is a write.
  if (exit.detail.access == Access::kWrite) remember(exits_, exit.start, span.id);
  for (const PartInterval& interval : exit.intervals) {
    Span part = span;
    part.id = SpanId::kNone;
    part.parent = span.id;
    part.kind = SpanKind::kPart;
    part.part = interval.part;
    part.begin = interval.begin;
    part.end = interval.end;
    emit(part);
  }
  emit_handlers(exit, span);
}

void SpanBuilder::emit_handlers(const ExitSpan& exit, const Span& parent) {
  for (std::size_t i = 0; i < exit.handlers.size(); ++i) {
    const HandlerEvent& event = exit.handlers[i];
    // The user time that holds the event; QEMU's events without one are points.
    const auto in =
        std::find_if(exit.intervals.begin(), exit.intervals.end(), [&](const auto& part) {
          return part.part == Part::kUser && part.begin <= event.at && event.at <= part.end;
        });
    Span span = parent;
    span.id = SpanId::kNone;
    span.parent = parent.id;
    span.kind = SpanKind::kHandler;
    span.name = event.event;
    span.region = event.region;
    span.begin = span.end = event.at;
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
        exit.device != kNoName ? event.region == exit.device : event.event == exit.qemu_event;
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
  remember(requests_, request.end, span.id);
  if (!request.notified) return;
  const auto exit = exits_.find(*request.notified);
  if (exit != exits_.end()) flow(exit->second, span.id, FlowKind::kNotify);
}

void SpanBuilder::on_delivered(const Delivered& delivered) {
  const auto request = requests_.find(delivered.request.end);
  if (request != requests_.end()) remember(injections_, delivered.injected, request->second);
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
  const auto request = injections_.find(*interrupt.injected);
  if (request != injections_.end()) flow(request->second, span.id, FlowKind::kInjection);
}

}  // namespace trapline
