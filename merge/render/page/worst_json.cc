#include "merge/render/page/worst_json.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/report/exit_text.h"

namespace trapline::page {
namespace {

constexpr std::string_view kLanes[] = {"guest", "kernel", "QEMU", "others"};
constexpr std::string_view kKinds[] = {"guest",     "kernel",  "user",
                                       "preempted", "blocked", "handler"};

std::string_view lane_of(WorstExits::Kind kind) {
  switch (kind) {
    case WorstExits::Kind::kGuest:
      return kLanes[0];
    case WorstExits::Kind::kUser:
    case WorstExits::Kind::kHandler:
      return kLanes[2];
    default:
      return kLanes[1];
  }
}

std::size_t lane_number(std::string_view lane) {
  return static_cast<std::size_t>(std::find(std::begin(kLanes), std::end(kLanes), lane) - kLanes);
}

// Whole characters of UTF-8.
std::string clipped(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  text.resize(most);
  return text + "…";
}

std::string text_of(const Event& event, const PageNames& names) {
  const Source& source = names.timeline.source_of(event);
  if (const auto* marker = std::get_if<Marker>(&event.payload)) {
    return printable(event_part(marker->text));
  }
  std::string name = source.event_name(event);
  if (const auto colon = name.find(':'); colon != std::string::npos) name.erase(0, colon + 1);
  const std::string text = source.event_text(event);
  return text.empty() ? name : name + " " + text;
}

std::string_view lane_of_event(const Event& event, ThreadId thread) {
  if (is_guest(event.machine)) return kLanes[0];
  if (std::holds_alternative<Marker>(event.payload)) return kLanes[2];
  return event.thread == thread ? kLanes[1] : kLanes[3];
}

Json neighbourhood(const WorstExits::Capture& capture, const PageNames& names, bool first) {
  const std::size_t most_events = first ? kEventsOfFirst : kEvents;
  const std::size_t most_spans = first ? kSpansOfFirst : kSpans;
  Json spans = Json::array(), events = Json::array();
  // The nearest to the exit's end are the ones that tell most.
  const std::size_t skip =
      capture.spans.size() > most_spans ? capture.spans.size() - most_spans : 0;
  for (std::size_t i = skip; i < capture.spans.size(); ++i) {
    const WorstExits::Near& span = capture.spans[i];
    const std::string text = span.kind == WorstExits::Kind::kHandler
                                 ? name_or_dash(names.pipeline.names(), span.name)
                             : span.kind == WorstExits::Kind::kUser
                                 ? std::string("QEMU")
                                 : std::string(kKinds[static_cast<std::size_t>(span.kind)]);
    spans.push_back({lane_number(lane_of(span.kind)),
                     names.relative(std::max(span.begin, capture.from).ns()),
                     names.relative(std::min(span.end, capture.to).ns()),
                     kKinds[static_cast<std::size_t>(span.kind)], text});
  }
  std::uint64_t left_out = capture.left_out + skip;
  const std::size_t drop =
      capture.events.size() > most_events ? capture.events.size() - most_events : 0;
  left_out += drop;
  for (std::size_t i = drop; i < capture.events.size(); ++i) {
    const Event& event = capture.events[i].event;
    std::string text = clipped(text_of(event, names), first ? 160 : 100);
    const bool of_guest = is_guest(event.machine);
    const ThreadId task = of_guest ? event.task : event.thread;
    const std::string who =
        event.thread == capture.exit.thread && !of_guest
            ? names.vcpus.vcpu(event.thread, true)
            : printable(fmt::format("{}-{}", names.timeline.source_of(event).comm(task),
                                    static_cast<std::int32_t>(task)));
    events.push_back({lane_number(lane_of_event(event, capture.exit.thread)),
                      names.relative(event.at.ns()), std::move(text), who});
  }
  return {{"from", names.relative(std::max(names.start, capture.from.ns()))},
          {"to", names.relative(capture.to.ns())},
          {"lanes", kLanes},
          {"spans", std::move(spans)},
          {"events", std::move(events)},
          {"left_out", left_out}};
}

}  // namespace

void add_worst(Json& json, const WorstExits& worst, const PageNames& names,
               std::size_t neighbourhoods) {
  Json exits = Json::array(), near = Json::array();
  for (const auto& capture : worst.sorted()) {
    const ExitSpan& exit = capture->exit;
    const Source& source = names.timeline.source(exit.source);
    ExitRow row{
        exit,
        {},
        function_text(names.pipeline.names(), names.pipeline.stacks().innermost(capture->stack)),
        printable(reason_text(source, exit.reason)),
        detail_text(exit.detail),
        name_or_dash(names.pipeline.names(), exit.device),
        "-"};
    if (exit.preempted_by != ThreadId{}) {
      row.preempted_by = printable(fmt::format("{}-{}", source.comm(exit.preempted_by),
                                               static_cast<std::int32_t>(exit.preempted_by)));
    }
    Json one = exit_json(row);
    one.erase("start_ns");
    one["start"] = names.relative(exit.start.ns());
    one["vcpu"] = names.vcpus.vcpu(exit.thread, true);
    one["neighbourhood"] = near.size() < neighbourhoods ? Json(near.size()) : Json();
    if (near.size() < neighbourhoods)
      near.push_back(neighbourhood(*capture, names, near.size() < kFirst));
    exits.push_back(std::move(one));
  }
  json["worst"] = std::move(exits);
  json["neighbourhoods"] = std::move(near);
}

}  // namespace trapline::page
