// Spans beside the vCPUs' tracks: requests with their stages, interrupts, vhost workers' turns, the
// guest's intervals, wake-ups.
#include <fmt/format.h>

#include "backend_ftrace/base/text.h"
#include "merge/export/perfetto.h"

namespace trapline {

using perfetto::Annotation;
using perfetto::Slice;

// Slices of one track must not overlap: a lane that is free at the span's begin, or a new one.
// Spans come in the order of their ends, so what is in a lane already ended before.
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

// Held back until the flows that end in it are known: they follow it.
void PerfettoExporter::write_asynchronous(const Pipeline& pipeline) {
  if (!asynchronous_) return;
  const auto [span, children, flows, ending_flows] = std::move(*asynchronous_);
  asynchronous_.reset();
  if (span.kind == SpanKind::kTurn) return write_turn(span, children, flows);
  const bool request = span.kind == SpanKind::kRequest;
  const std::uint64_t track = lane(span.track.kind, span.track.thread, span.begin, span.end,
                                   request ? "requests" : "interrupts");
  if (track == 0) return;
  const std::string name = request                    ? std::string(pipeline.names()[span.name])
                           : span.number == kNoVector ? std::string("interrupt")
                                                      : fmt::format("interrupt {:#x}", span.number);
  const std::uint64_t category = request ? words_.of_request : words_.of_interrupt;
  writer_.begin(track, span.begin.ns(), {writer_.name(name), category, {}, flows, ending_flows});
  for (const Span& stage : children)
    write_slice(track, stage, kRequestStageNames[stage.number], words_.of_stage);
  writer_.end(track, span.end.ns());
}

void PerfettoExporter::write_slice(std::uint64_t track, const Span& span, std::string_view name,
                                   std::uint64_t category) {
  writer_.begin(track, span.begin.ns(), {writer_.name(name), category});
  writer_.end(track, span.end.ns());
}

// On a track of the worker's own: its turns follow each other.
void PerfettoExporter::write_turn(const Span& span, const std::vector<Span>& parts,
                                  const std::vector<std::uint64_t>& flows) {
  const ThreadId worker = span.track.thread;
  const ThreadId process{static_cast<std::int32_t>(span.track.task)};
  std::uint64_t& track = worker_tracks_[worker];
  if (track == 0) {
    if (worker_tracks_.size() > kMostThreads) return;
    const std::string name =
        fmt::format("{} (tid {})", texts_.host_comm(worker), perfetto::number(worker));
    track = writer_.add_track(vm_track(process), name, 95);
  }
  const std::string_view name = span.number != 0 ? "serves a notify" : "turn";
  writer_.begin(track, span.begin.ns(), {writer_.name(name), words_.of_vhost, {}, flows, {}});
  for (const Span& part : parts)
    write_slice(track, part, kTurnPartNames[part.number], words_.of_turn_part);
  writer_.end(track, span.end.ns());
}

// In lanes, as they overlap: those of two tasks, and interrupts in other interrupts.
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
  const std::string on = number_of == kNoVcpu
                             ? fmt::format("tid {}", perfetto::number(interval.thread))
                             : fmt::format("vCPU {}", number_of);
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

// On the track of the vCPU that woke it, else on one of the VM's.
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
  const std::string who =
      waker == ThreadId{} ? "interrupt"
                          : fmt::format("{}-{}", texts_.host_comm(waker), perfetto::number(waker));
  const std::string whom = span.vcpu == kNoVcpu ? fmt::format("tid {}", perfetto::number(woken))
                                                : fmt::format("vCPU {}", span.vcpu);
  const perfetto::Text name = writer_.name(fmt::format("{} wakes {}", who, whom));
  const std::uint64_t flow = flow_of(span.id, FlowKind::kWakeup);
  writer_.instant(track, span.begin.ns(), {name, words_.of_wakeup, {}, {&flow, 1}});
}

}  // namespace trapline
