#include "merge/render/page/timeline_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "backend_ftrace/base/text.h"
#include "merge/render/ordered_json.h"
#include "merge/render/page/page_data.h"
#include "merge/render/page/worst_exits.h"

namespace trapline::page {
namespace {

// The kinds of spans in docs/formats/page.md; the kind of a Part is kFirstPart plus its number.
constexpr std::size_t kGuest = 0, kFirstPart = 1, kHandler = 6;
constexpr std::size_t kind_of(Part part) { return kFirstPart + static_cast<std::size_t>(part); }

}  // namespace

void TimelinePage::add_span(ThreadId vcpu, Lane lane, Timestamp begin, Timestamp end,
                            std::size_t kind, std::size_t text) {
  begin = std::max(begin, from_);
  end = std::min(end, to_);
  if (end < begin) return;
  if (spans_.size() >= kMostSpans) {
    ++left_out_;
    return;
  }
  spans_.push_back({vcpu, lane, begin, end, kind, text, 0});
}

void TimelinePage::event(const Event& event, const Pipeline& pipeline) {
  if (!resolved_) {
    resolved_ = pipeline.first().has_value();  // a loss may come before the first event
    const Timestamp first = pipeline.first().value_or(event.at);
    from_ = asked_from_.resolve(first);
    if (asked_to_) to_ = asked_to_->resolve(first);
  }
  if (const GuestRun* run = pipeline.exits().guest_run();
      run != nullptr && pipeline.counts(run->thread)) {
    (void)vcpus_.get(run->thread, kMostThreads);
    add_span(run->thread, Lane::kGuest, run->begin, run->end, kGuest, texts_.number("guest"));
  }
  const bool is_exit = std::holds_alternative<KvmExit>(event.payload) ||
                       std::holds_alternative<KvmUserspaceExit>(event.payload);
  if (is_exit && pipeline.counts(event.thread)) (void)vcpus_.get(event.thread, kMostThreads);
  if (event.at < from_ || event.at > to_) return;
  if (events_.size() >= kMostEvents) {
    ++left_out_;
    return;
  }
  const bool of_vcpu = vcpus_.find(event.thread) != nullptr;
  const Lane lane = !of_vcpu                                        ? Lane::kOthers
                    : is_guest(event.machine)                       ? Lane::kGuest
                    : std::holds_alternative<Marker>(event.payload) ? Lane::kVmm
                                                                    : Lane::kKernel;
  events_.push_back({of_vcpu ? event.thread : ThreadId{}, lane, event.at, event.at, 0,
                     texts_.number(clipped(event_text(event, timeline_), kMostText)),
                     texts_.number(task_text(event, timeline_, pipeline.threads()))});
}

void TimelinePage::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  const std::string reason = printable(timeline_.source(exit.source).reason_name(exit.reason));
  for (const PartInterval& interval : exit.intervals) {
    const bool user = interval.part == Part::kUser;
    std::string text = interval.part == Part::kKernel ? "kernel: " + reason
                       : user                         ? "QEMU"
                              : std::string(kPartNames[static_cast<std::size_t>(interval.part)]);
    if (user && exit.device != kNoName) text += ": " + printable(pipeline.names()[exit.device]);
    add_span(exit.thread, user ? Lane::kVmm : Lane::kKernel, interval.begin, interval.end,
             kind_of(interval.part), texts_.number(std::move(text)));
  }
  for (const HandlerEvent& handler : exit.handlers) {
    add_span(exit.thread, Lane::kVmm, handler.at, handler.at, kHandler,
             texts_.number(name_or_dash(pipeline.names(), handler.name())));
  }
}

void TimelinePage::turn(const VhostTurn& turn, const Pipeline&) {
  for (const VhostTurn::Piece& piece : turn.pieces)
    add_span(turn.worker, Lane::kWorker, piece.begin, piece.end,
             kind_of(piece.part == TurnPart::kRuns ? Part::kKernel : Part::kPreempted),
             texts_.number(std::string(kTurnPartNames[static_cast<std::size_t>(piece.part)])));
}

void TimelinePage::request(const RequestSpan& request, const Pipeline& pipeline) {
  // Requests that overlap are on separate lanes.
  const auto free =
      std::ranges::find_if(requests_, [&](Timestamp until) { return until <= request.start; });
  const auto number = static_cast<std::size_t>(free - requests_.begin());
  const bool is_shown = request.end >= from_ && request.start <= to_;
  if (number >= kMostRequestLanes) {
    if (is_shown) ++left_out_;
    return;
  }
  const ThreadId lane{static_cast<std::int32_t>(number)};
  if (is_shown) {
    if (free == requests_.end()) requests_.emplace_back();
    requests_[number] = request.end;
    const NameId name = pipeline.request_name(request.spec);
    add_span(lane, Lane::kRequests, request.start, request.end, kHandler,
             texts_.number(name_or_dash(pipeline.names(), name)));
  }
  for (const RequestStage& stage : stages_of(request)) {
    const Part part = stage.kind == RequestStageKind::kDisk         ? Part::kBlocked
                      : stage.kind == RequestStageKind::kBlockLayer ? Part::kKernel
                                                                    : Part::kUser;
    add_span(lane, Lane::kRequests, stage.begin, stage.end, kind_of(part),
             texts_.number(std::string(kRequestStageNames[static_cast<std::size_t>(stage.kind)])));
  }
}

std::string TimelinePage::json(const Pipeline& pipeline) const {
  const std::vector<VcpuThread> threads = vcpu_threads(pipeline.exits().vcpus(), timeline_);
  const VcpuNames names(threads, find_vms(threads, pipeline.processes()));
  Timestamp from = from_, to = std::min(to_, pipeline.end());
  if (from < pipeline.begin().value_or(from)) from = *pipeline.begin();
  std::map<std::pair<Lane, ThreadId>, std::size_t> places;
  Json lanes = Json::array();
  const auto add = [&](Lane lane, ThreadId thread, std::string name) {
    places[{lane, thread}] = lanes.size();
    lanes.push_back(std::move(name));
  };
  // Only vCPUs that have spans or events get lanes, in the order of the vCPUs.
  const auto has = [&](ThreadId thread) {
    const auto is = [thread](const Kept& kept) { return kept.vcpu == thread; };
    return std::any_of(spans_.begin(), spans_.end(), is) ||
           std::any_of(events_.begin(), events_.end(), is);
  };
  for (const VcpuThread& thread : threads) {
    if (!has(thread.thread)) continue;
    const std::string vcpu = names.vcpu(thread.thread, true);
    add(Lane::kGuest, thread.thread, vcpu + " guest");
    add(Lane::kKernel, thread.thread, vcpu + " kernel");
    add(Lane::kVmm, thread.thread, vcpu + " QEMU");
  }
  // The lanes below those of vCPUs: vhost workers and requests.
  std::set<std::pair<Lane, ThreadId>> beside;
  for (const Kept& span : spans_)
    if (span.lane == Lane::kWorker || span.lane == Lane::kRequests)
      beside.emplace(span.lane, span.vcpu);
  for (const auto& [lane, thread] : beside) {
    const auto number = static_cast<std::int32_t>(thread);
    add(lane, thread,
        lane == Lane::kWorker ? printable(timeline_.source(0).comm(thread))
        : number == 0         ? std::string("requests")
                              : fmt::format("requests {}", number + 1));
  }
  const std::size_t others = lanes.size();
  lanes.push_back("others");
  const auto lane_of = [&](const Kept& kept) {
    const auto place = places.find({kept.lane, kept.vcpu});
    return place == places.end() ? others : place->second;
  };
  const auto relative = [&](Timestamp at) { return at < from ? 0 : elapsed(from, at); };
  Json spans = Json::array(), events = Json::array();
  for (const Kept& span : spans_) {
    spans.push_back(
        {lane_of(span), relative(span.begin), elapsed(span.begin, span.end), span.kind, span.text});
  }
  for (const Kept& event : events_)
    events.push_back({lane_of(event), relative(event.begin), event.text, event.whose});
  const Json page = {{"format", "trapline-timeline"},
                     {"version", 2},
                     {"tool", options_.tool},
                     {"command", options_.command},
                     {"time_unit", timeline_.source(0).info().cycles ? "cycles" : "ns"},
                     {"start_ns", std::to_string(from.ns())},
                     {"duration_ns", to < from ? 0 : elapsed(from, to)},
                     {"lanes", std::move(lanes)},
                     {"texts", texts_.all()},
                     {"spans", std::move(spans)},
                     {"events", std::move(events)},
                     {"left_out", left_out_}};
  return without_markup(page.dump(-1, ' ', true, Json::error_handler_t::replace));
}

}  // namespace trapline::page
