#include "merge/render/page/worst_exits.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "backend_ftrace/base/text.h"

namespace trapline::page {

namespace {

constexpr std::uint64_t kLeastContext = 50'000;  // ns
constexpr std::size_t kEventsAfter = 6;

std::uint64_t context_of(const ExitSpan& exit) { return std::max(kLeastContext, exit.total() / 4); }

bool longer(const std::shared_ptr<WorstExits::Capture>& a,
            const std::shared_ptr<WorstExits::Capture>& b) {
  return a->exit.total() > b->exit.total();
}

// Returns whether an event of another thread is shown around an exit of `thread`: an event of QEMU,
// an interrupt of KVM, or an event that switched to `thread` or woke it.
bool concerns(const WorstExits::Kept& kept, ThreadId thread) {
  return is_any_of<Marker, KvmIrq>(kept.event.payload) || kept.about == thread;
}

// Returns the thread to which the pipeline's last event switched, or which that event woke; nullopt
// for other events.
std::optional<ThreadId> switched_to(const Pipeline& pipeline) {
  const ThreadChanges changes = pipeline.changes();
  const bool are = !changes.empty() && (changes.back().runs() || changes.back().wakes());
  return are ? std::optional(changes.back().thread) : std::nullopt;
}

std::string_view moved(std::string_view text, std::span<const std::byte> from,
                       std::span<const std::byte> to) {
  const auto* begin = reinterpret_cast<const char*>(from.data());
  const std::less_equal<const char*> before;
  if (!before(begin, text.data()) || !before(text.data() + text.size(), begin + from.size())) {
    return {};  // in the source's own memory, which may be gone
  }
  return {reinterpret_cast<const char*>(to.data()) + (text.data() - begin), text.size()};
}

// Copies the event's bytes and makes its views point to the copy.
[[gnu::always_inline]] inline void copy(WorstExits::Kept& kept, const Event& event,
                                        std::uint64_t number) {
  const std::size_t size = event.raw.size();
  if (kept.raw.size() < size) kept.raw.resize(size);  // it never shrinks, because rings reuse it
  if (size != 0) std::memcpy(kept.raw.data(), event.raw.data(), size);
  kept.event = event;
  kept.event.raw = {kept.raw.data(), size};
  kept.number = number;
  if (std::string_view* text = text_of(kept.event.payload))
    *text = moved(*text, event.raw, kept.event.raw);
}

// Returns the longest of the shares, in order of time.
std::vector<WaitShare> longest_of(std::span<const WaitShare> shares) {
  std::vector<WaitShare> kept(shares.begin(), shares.end());
  std::ranges::stable_sort(kept, std::greater(), &WaitShare::length);
  if (kept.size() > WorstExits::kMostWaits) kept.resize(WorstExits::kMostWaits);
  std::ranges::stable_sort(kept, {}, &WaitShare::begin);
  return kept;
}

}  // namespace

const std::vector<Dimension>& WorstExits::row() {
  static const std::vector<Dimension> kRow = {Dimension::kReason, Dimension::kDevice};
  return kRow;
}

[[gnu::always_inline]] inline WorstExits::Kept& WorstExits::keep(Ring& ring, std::size_t most,
                                                                 const Event& event) {
  if (ring.events.size() < most) ring.events.emplace_back();
  Kept& kept = ring.events[ring.next];
  copy(kept, event, ++ring.pushed);
  if (++ring.next == most) ring.next = 0;
  return kept;
}

void WorstExits::add_span(Thread& thread, const Near& span) {
  if (thread.spans.size() < kSpanRing) thread.spans.emplace_back();
  thread.spans[thread.next_span] = span;
  if (++thread.next_span == kSpanRing) thread.next_span = 0;
  for (const Pointer& capture : thread.open) {
    if (capture->spans.size() < kMostSpans && span.begin <= capture->to)
      capture->spans.push_back(span);
  }
}

void WorstExits::go_on(Thread& thread, const Event& event) {
  std::erase_if(thread.open, [&](const Pointer& capture) {
    if (event.at > capture->to || capture->after >= kEventsAfter) {
      capture->to = std::min(capture->to, event.at);
      return true;
    }
    copy(capture->events.emplace_back(), event, 0);
    ++capture->after;
    return false;
  });
}

void WorstExits::event(const Event& event, const Pipeline& pipeline) {
  if (std::holds_alternative<Lost>(event.payload)) return;
  if (is_guest(event.machine)) {  // shown with the vCPU that ran it; the payload is the guest's
    if (Thread* thread = threads_.find(event.thread)) {
      keep(thread->ring, kThreadRing, event);
      if (!thread->open.empty()) go_on(*thread, event);
    }
    return;
  }
  if (const GuestRun* run = pipeline.exits().guest_run()) {
    if (Thread* thread = threads_.get(run->thread, kMostThreads))
      add_span(*thread, {Kind::kGuest, run->begin, run->end});
  }
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr && (std::holds_alternative<KvmExit>(event.payload) ||
                            std::holds_alternative<KvmUserspaceExit>(event.payload))) {
    thread = threads_.get(event.thread, kMostThreads);
  }
  if (thread != nullptr) {
    keep(thread->ring, kThreadRing, event);
    const bool begins = pipeline.exits().model().from_userspace_exit
                            ? std::holds_alternative<KvmUserspaceExit>(event.payload)
                            : std::holds_alternative<KvmExit>(event.payload);
    if (begins) thread->exit_began = thread->ring.pushed;
    if (!thread->open.empty()) go_on(*thread, event);
    return;
  }
  const std::optional<ThreadId> about = switched_to(pipeline);
  if (about || is_any_of<Marker, KvmIrq>(event.payload))
    keep(others_, kOtherRing, event).about = about.value_or(ThreadId{-1});
}

WorstExits::Pointer WorstExits::capture(Thread& thread, const ExitSpan& exit,
                                        const Pipeline& pipeline) {
  auto made = std::make_shared<Capture>();
  made->exit = KeptExit(exit, pipeline);
  made->stack = pipeline.stack_of(exit);
  made->waits = longest_of(pipeline.waits()->shares());
  const std::uint64_t context = context_of(exit);
  made->from = Timestamp(exit.start.ns() > context ? exit.start.ns() - context : 0);
  made->to = Timestamp(exit.end.ns() + context);
  for (const Near& span : thread.spans)
    if (span.end > made->from) made->spans.push_back(span);
  std::ranges::stable_sort(made->spans, {}, &Near::begin);
  std::uint64_t inside = 0;
  for (const Kept& kept : thread.ring.events) {
    if (kept.event.at < made->from) continue;
    inside += kept.number >= thread.exit_began ? 1 : 0;
    copy(made->events.emplace_back(), kept.event, 0);
  }
  const std::uint64_t all = thread.ring.pushed + 1 - thread.exit_began;
  made->left_out = all > inside ? all - inside : 0;
  for (const Kept& kept : others_.events) {
    if (kept.event.at < made->from || !concerns(kept, exit.thread)) continue;
    if (made->events.size() >= kMostEvents) {
      ++made->left_out;
    } else {
      copy(made->events.emplace_back(), kept.event, 0);
    }
  }
  std::ranges::stable_sort(made->events, {}, [](const Kept& kept) { return kept.event.at; });
  return made;
}

// Calls `visit` for the exit's parts in order, then for QEMU's events in it.
void each_span(const ExitSpan& exit, auto&& visit) {
  using Kind = WorstExits::Kind;
  for (const PartInterval& interval : exit.intervals) {
    visit(WorstExits::Near{static_cast<Kind>(static_cast<std::uint8_t>(interval.part) + 1),
                           interval.begin, interval.end});
  }
  for (const HandlerEvent& handler : exit.handlers) {
    visit(WorstExits::Near{Kind::kHandler, handler.at, handler.at,
                           handler.region != kNoName ? handler.region : handler.event});
  }
}

void WorstExits::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  Thread* thread = threads_.get(exit.thread, kMostThreads);
  if (thread == nullptr) return;
  const Pointer made = exit.halt ? nullptr : keep_if_long(*thread, exit, pipeline);
  std::size_t shown = 0;
  each_span(exit, [&](const Near& span) {
    if (++shown <= kSpanRing / 2) add_span(*thread, span);
  });
  if (made == nullptr) return;
  each_span(exit, [&](const Near& span) {
    if (made->spans.size() < kMostSpans) {
      made->spans.push_back(span);
    } else {
      ++made->left_out;
    }
  });
  if (thread->open.size() < kMostOpen) {
    thread->open.push_back(made);
  } else {
    made->to = exit.end;
  }
}

// Captures the exit if it is one of the kMost longest so far, or the longest of its row(), which is
// its reason and device. Returns the capture, or null.
WorstExits::Pointer WorstExits::keep_if_long(Thread& thread, const ExitSpan& exit,
                                             const Pipeline& pipeline) {
  const std::uint64_t total = exit.total();
  const bool among_longest = longest_.size() < kMost || total > longest_.front()->exit.total();
  const std::uint32_t place = rows_.place_of(keys_.of(exit, kNoStack, pipeline.stacks()));
  Pointer& longest = rows_[place].longest;
  const bool longest_of_row =
      place != kMostRows && (longest == nullptr || total > longest->exit.total());
  if (!among_longest && !longest_of_row) return nullptr;
  Pointer made = capture(thread, exit, pipeline);
  if (longest_of_row) longest = made;
  if (!among_longest) return made;
  if (longest_.size() >= kMost) {
    std::pop_heap(longest_.begin(), longest_.end(), longer);
    longest_.pop_back();
  }
  longest_.push_back(made);
  std::push_heap(longest_.begin(), longest_.end(), longer);
  return made;
}

std::vector<std::shared_ptr<const WorstExits::Capture>> WorstExits::sorted() const {
  std::vector<std::shared_ptr<const Capture>> all(longest_.begin(), longest_.end());
  for (const Row& row : rows_.rows())
    if (std::find(all.begin(), all.end(), row.longest) == all.end()) all.push_back(row.longest);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(b->exit.total(), a->exit.start) < std::pair(a->exit.total(), b->exit.start);
  });
  return all;
}

namespace {

// Returns the number of a lane: guest, kernel, QEMU, others.
std::int64_t lane_of_event(const Event& event, ThreadId thread) {
  if (is_guest(event.machine)) return 0;
  if (std::holds_alternative<Marker>(event.payload)) return 2;
  return event.thread == thread ? 1 : 3;
}

std::string whose(const Event& event, ThreadId thread, const PageNames& names) {
  return event.thread == thread && !is_guest(event.machine)
             ? names.naming.vcpus.vcpu(event.thread, true)
             : task_text(event, names.naming.timeline, names.naming.pipeline.threads());
}

std::int64_t number_of(NumberedTexts& texts, std::string text) {
  return static_cast<std::int64_t>(texts.number(std::move(text)));
}

// The spans and events around an exit, as lists of numbers: docs/formats/page.md.
struct Neighbourhood {
  std::int64_t from = 0, length = 0;
  std::uint64_t left_out = 0;
  std::vector<std::int64_t> spans, events;
};

// Appends a span's numbers: kind, begin (counted from the previous span's begin), length and, only
// for a handler, the number of the handler's name among `texts`.
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
  // The spans nearest to the exit's end are the most useful.
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
    near.events.push_back(lane_of_event(event, capture.exit.thread));
    near.events.push_back(at - last);
    near.events.push_back(
        number_of(texts, clipped(event_text(event, names.naming.timeline), first ? 160 : 100)));
    near.events.push_back(number_of(texts, whose(event, capture.exit.thread, names)));
    last = at;
  }
  near.left_out = capture.left_out + skip + drop;
  return near;
}

// Additions to an exit's row: its texts by number, and its waits: part, by whom, begin, length, ….
struct WorstRow {
  std::int64_t start = 0;
  std::int64_t vcpu = 0, reason = 0, detail = 0, device = 0, function = 0, preempted_by = 0;
  std::vector<std::int64_t> waits;
  std::optional<std::uint64_t> neighbourhood;
};

Table neighbourhood_table(std::vector<Neighbourhood> near) {
  using Row = Neighbourhood;
  TableOf<Row> table({.key = "neighbourhoods", .packed = true}, std::move(near),
                     [](const Row&) { return std::string(); });
  table.add({"from"}, &Row::from);
  table.add({"length"}, &Row::length);
  table.add({"left_out"}, &Row::left_out);
  table.add({"spans"}, &Row::spans);
  table.add({"events"}, &Row::events);
  return table;
}

// Returns the columns of --slower-than, with numbers for texts and times relative to the report's
// start.
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

std::string task_text(const Event& event, const Timeline& timeline, const Threads& threads) {
  const ThreadId task = is_guest(event.machine) ? event.task : event.thread;
  // A source knows only the last name of an id.
  const bool is_known = is_guest(event.machine) ||
                        (threads.has_one_name(task) && threads.name_at(task, event.at).empty());
  const std::string name = is_known ? timeline.source_of(event).comm(task)
                                    : std::string(threads.name_at(task, event.at));
  return printable(fmt::format("{}-{}", name, tid_of(task)));
}

std::vector<Table> worst_tables(const WorstExits& worst, const PageNames& names,
                                std::size_t neighbourhoods) {
  NumberedTexts texts;
  std::vector<ExitRow> exits;
  std::vector<WorstRow> rows;
  std::vector<Neighbourhood> near;
  for (const auto& capture : worst.sorted()) {
    const KeptExit& exit = capture->exit;
    const NameId function = names.naming.pipeline.stacks().innermost(capture->stack);
    exits.push_back(exit_row(exit, function, names.naming, exit.preempted));
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
