#include "merge/render/page/worst_json.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/pass/naming.h"
#include "merge/report/slow_exits.h"
#include "merge/report/table.h"

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

std::int64_t number_of(NumberedTexts& texts, std::string text) {
  return static_cast<std::int64_t>(texts.number(std::move(text)));
}

// Around an exit: lists of numbers as docs/formats/page.md has them.
struct Neighbourhood {
  std::int64_t from = 0, length = 0;
  std::uint64_t left_out = 0;
  std::vector<std::int64_t> spans, events;
};

// kind, begin after the begin before, length; of a handler also its text.
void add_span(std::vector<std::int64_t>& spans, const WorstExits::Near& span, std::int64_t& last,
              const WorstExits::Capture& capture, const PageNames& names, NumberedTexts& texts) {
  const std::int64_t begin = names.relative(std::max(span.begin, capture.from).ns());
  const std::int64_t end = names.relative(std::min(span.end, capture.to).ns());
  spans.push_back(static_cast<std::int64_t>(span.kind));
  spans.push_back(begin - last);
  spans.push_back(std::max<std::int64_t>(0, end - begin));
  if (span.kind == WorstExits::Kind::kHandler)
    spans.push_back(number_of(texts, name_or_dash(names.naming.names, span.name)));
  last = begin;
}

Neighbourhood neighbourhood(const WorstExits::Capture& capture, const PageNames& names, bool first,
                            NumberedTexts& texts) {
  const std::size_t most_events = first ? kEventsOfFirst : kEvents;
  const std::size_t most_spans = first ? kSpansOfFirst : kSpans;
  Neighbourhood near;
  near.from = names.relative(std::max(names.start, capture.from.ns()));
  near.length = names.relative(capture.to.ns()) - near.from;
  // The nearest to the exit's end are the ones that tell most.
  const std::size_t skip =
      capture.spans.size() > most_spans ? capture.spans.size() - most_spans : 0;
  std::int64_t last = near.from;
  for (std::size_t i = skip; i < capture.spans.size(); ++i)
    add_span(near.spans, capture.spans[i], last, capture, names, texts);
  const std::size_t drop =
      capture.events.size() > most_events ? capture.events.size() - most_events : 0;
  last = near.from;
  for (std::size_t i = drop; i < capture.events.size(); ++i) {
    const Event& event = capture.events[i].event;
    const std::int64_t at = names.relative(event.at.ns());
    near.events.push_back(
        static_cast<std::int64_t>(lane_number(lane_of_event(event, capture.exit.thread))));
    near.events.push_back(at - last);
    near.events.push_back(
        number_of(texts, clipped(event_text(event, names.naming.timeline), first ? 160 : 100)));
    near.events.push_back(number_of(texts, whose(event, capture.exit.thread, names)));
    last = at;
  }
  near.left_out = capture.left_out + skip + drop;
  return near;
}

// Beside an exit's row: its texts by number, and its waits: part, by whom, begin, length, ….
struct WorstRow {
  std::int64_t start = 0;
  std::int64_t vcpu = 0, reason = 0, detail = 0, device = 0, function = 0, preempted_by = 0;
  std::vector<std::int64_t> waits;
  std::optional<std::uint64_t> neighbourhood;
};

Table neighbourhood_table(std::vector<Neighbourhood> near) {
  using Row = Neighbourhood;
  TableOf<Row> table(std::move(near), [](const Row&) { return std::string(); });
  table.key = "neighbourhoods";
  table.packed = true;
  table.add({"from"}, &Row::from);
  table.add({"length"}, &Row::length);
  table.add({"left_out"}, &Row::left_out);
  table.add({"spans"}, &Row::spans);
  table.add({"events"}, &Row::events);
  return table;
}

// The columns of --slower-than, with numbers for texts and times from the report's start.
Table worst_table(std::vector<ExitRow> exits, std::vector<WorstRow> given, const Naming& names) {
  const ExitTracker& tracker = names.pipeline.exits();
  Table table =
      slow_exit_table(std::move(exits), tracker.known_states(), tracker.counters().vmm_events != 0);
  table.key = "worst";
  table.packed = true;
  const auto rows = std::make_shared<const std::vector<WorstRow>>(std::move(given));
  std::erase_if(table.columns, [](const Column& column) { return column.key == "start_ns"; });
  const auto put = [&](const std::string& key, auto member) {
    auto column = std::ranges::find(table.columns, key, &Table::Described::key);
    if (column == table.columns.end()) column = table.columns.insert(column, {{key}, nullptr});
    column->value = [rows, member](std::size_t row) { return to_value((*rows)[row].*member); };
  };
  put("vcpu", &WorstRow::vcpu);
  put("reason", &WorstRow::reason);
  put("detail", &WorstRow::detail);
  put("device", &WorstRow::device);
  put("function", &WorstRow::function);
  put("preempted_by", &WorstRow::preempted_by);
  put("start", &WorstRow::start);
  put("waits", &WorstRow::waits);
  put("neighbourhood", &WorstRow::neighbourhood);
  return table;
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

std::vector<Table> worst_tables(const WorstExits& worst, const PageNames& names,
                                std::size_t neighbourhoods) {
  NumberedTexts texts;
  std::vector<ExitRow> exits;
  std::vector<WorstRow> rows;
  std::vector<Neighbourhood> near;
  for (const auto& capture : worst.sorted()) {
    const ExitSpan& exit = capture->exit;
    const NameId function = names.naming.pipeline.stacks().innermost(capture->stack);
    exits.push_back(exit_row(exit, function, names.naming));
    WorstRow& row = rows.emplace_back();
    row.start = names.relative(exit.start.ns());
    for (const WaitShare& share : capture->waits) {
      row.waits.insert(row.waits.end(), {static_cast<std::int64_t>(share.part),
                                         number_of(texts, names.naming.text(share.culprit)),
                                         names.relative(share.begin.ns()),
                                         static_cast<std::int64_t>(share.length())});
    }
    if (near.size() >= neighbourhoods) continue;
    row.neighbourhood = near.size();
    near.push_back(neighbourhood(*capture, names, near.size() < kFirst, texts));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].vcpu = number_of(texts, exits[i].vcpu);
    rows[i].reason = number_of(texts, exits[i].reason);
    rows[i].detail = number_of(texts, exits[i].detail);
    rows[i].device = number_of(texts, exits[i].device);
    rows[i].function = number_of(texts, exits[i].function);
    rows[i].preempted_by = number_of(texts, exits[i].preempted_by);
  }
  Table table = worst_table(std::move(exits), std::move(rows), names.naming);
  table.facts = {{"texts", texts.all()}};
  return {std::move(table), neighbourhood_table(std::move(near))};
}

}  // namespace trapline::page
