#include "merge/render/page/worst_json.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/pass/naming.h"
#include "merge/render/tables.h"
#include "merge/report/slow_exits.h"
#include "merge/report/tables.h"

namespace trapline::page {
namespace {

constexpr std::string_view kLanes[] = {"guest", "kernel", "QEMU", "others"};
std::size_t lane_number(std::string_view lane) {
  return static_cast<std::size_t>(std::find(std::begin(kLanes), std::end(kLanes), lane) - kLanes);
}

std::string_view lane_of_event(const Event& event, ThreadId thread) {
  if (is_guest(event.machine)) return kLanes[0];
  if (std::holds_alternative<Marker>(event.payload)) return kLanes[2];
  return event.thread == thread ? kLanes[1] : kLanes[3];
}

std::string whose(const Event& event, ThreadId thread, const PageNames& names) {
  return event.thread == thread && !is_guest(event.machine)
             ? names.naming.vcpus.vcpu(event.thread, true)
             : task_text(event, names.naming.timeline);
}

// kind, begin after the begin before, length; of a handler also its text.
void add_span(Json& spans, const WorstExits::Near& span, std::int64_t& last,
              const WorstExits::Capture& capture, const PageNames& names, NumberedTexts& texts) {
  const std::int64_t begin = names.relative(std::max(span.begin, capture.from).ns());
  const std::int64_t end = names.relative(std::min(span.end, capture.to).ns());
  spans.push_back(static_cast<unsigned>(span.kind));
  spans.push_back(begin - last);
  spans.push_back(std::max<std::int64_t>(0, end - begin));
  if (span.kind == WorstExits::Kind::kHandler) {
    spans.push_back(texts.number(name_or_dash(names.naming.names, span.name)));
  }
  last = begin;
}

// from, length, what is left out, spans, events.
Json neighbourhood(const WorstExits::Capture& capture, const PageNames& names, bool first,
                   NumberedTexts& texts) {
  const std::size_t most_events = first ? kEventsOfFirst : kEvents;
  const std::size_t most_spans = first ? kSpansOfFirst : kSpans;
  const std::int64_t from = names.relative(std::max(names.start, capture.from.ns()));
  Json spans = Json::array(), events = Json::array();
  // The nearest to the exit's end are the ones that tell most.
  const std::size_t skip =
      capture.spans.size() > most_spans ? capture.spans.size() - most_spans : 0;
  std::int64_t last = from;
  for (std::size_t i = skip; i < capture.spans.size(); ++i) {
    add_span(spans, capture.spans[i], last, capture, names, texts);
  }
  const std::size_t drop =
      capture.events.size() > most_events ? capture.events.size() - most_events : 0;
  last = from;
  for (std::size_t i = drop; i < capture.events.size(); ++i) {
    const Event& event = capture.events[i].event;
    const std::int64_t at = names.relative(event.at.ns());
    events.push_back(lane_number(lane_of_event(event, capture.exit.thread)));
    events.push_back(at - last);
    events.push_back(
        texts.number(clipped(event_text(event, names.naming.timeline), first ? 160 : 100)));
    events.push_back(texts.number(whose(event, capture.exit.thread, names)));
    last = at;
  }
  return {from, names.relative(capture.to.ns()) - from, capture.left_out + skip + drop,
          std::move(spans), std::move(events)};
}

// Objects with the same keys as {"columns": keys, "rows": lists of values}; texts as numbers.
Json packed(const Json& rows, NumberedTexts& texts) {
  Json columns = Json::array(), lists = Json::array();
  for (const Json& row : rows) {
    Json list = Json::array();
    for (const auto& [key, value] : row.items()) {
      if (lists.empty()) columns.push_back(key);
      list.push_back(value.is_string() ? Json(texts.number(value.get<std::string>())) : value);
    }
    lists.push_back(std::move(list));
  }
  return {{"columns", std::move(columns)}, {"rows", std::move(lists)}};
}

}  // namespace

std::string event_text(const Event& event, const Timeline& timeline) {
  if (const auto* marker = std::get_if<Marker>(&event.payload))
    return printable(event_part(marker->text));
  if (const auto* lost = std::get_if<Lost>(&event.payload)) {
    return lost->count == 0 ? "events lost (count unknown)"
                            : fmt::format("{} events lost", lost->count);
  }
  const Source& source = timeline.source_of(event);
  const std::string name = source.event_name(event), text = source.event_text(event);
  return name.substr(name.find(':') + 1) + (text.empty() ? "" : " ") + text;
}

std::string task_text(const Event& event, const Timeline& timeline) {
  const ThreadId task = is_guest(event.machine) ? event.task : event.thread;
  return printable(
      fmt::format("{}-{}", timeline.source_of(event).comm(task), static_cast<std::int32_t>(task)));
}

void add_worst(Json& json, const WorstExits& worst, const PageNames& names,
               std::size_t neighbourhoods, NumberedTexts& texts) {
  Json exits = Json::array(), near = Json::array();
  const ExitTracker& tracker = names.naming.pipeline.exits();
  const States known = tracker.known_states();
  const bool vmm_events = tracker.counters().vmm_events != 0;
  for (const auto& capture : worst.sorted()) {
    const ExitSpan& exit = capture->exit;
    const NameId function = names.naming.pipeline.stacks().innermost(capture->stack);
    const ExitRow row = exit_row(exit, function, names.naming);
    Json one = row_json(slow_exit_table({&row, 1}, known, vmm_events), 0);
    one.erase("start_ns");
    for (const char* name : {"detail", "device", "function", "preempted_by"})
      if (one[name].is_null()) one[name] = "-";  // the page's texts are a report's
    if (exit.injected == kNoVector) one["injected_vector"] = Json();
    one["start"] = names.relative(exit.start.ns());
    one["vcpu"] = row.vcpu;
    one["waits"] = Json::array();
    for (const WaitShare& share : capture->waits) {
      one["waits"].push_back({static_cast<unsigned>(share.part),
                              texts.number(names.naming.text(share.culprit)),
                              names.relative(share.begin.ns()), share.length()});
    }
    one["neighbourhood"] = near.size() < neighbourhoods ? Json(near.size()) : Json();
    if (near.size() < neighbourhoods)
      near.push_back(neighbourhood(*capture, names, near.size() < kFirst, texts));
    exits.push_back(std::move(one));
  }
  json["worst"] = packed(exits, texts);
  json["neighbourhoods"] = std::move(near);
}

}  // namespace trapline::page
