#include "merge/analyze/guest_intervals.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#include "backend_ftrace/base/text.h"

#include "merge/model/kernel_events.h"

namespace trapline {
namespace {

std::deque<VcpuPiece>::const_iterator first_that_ends_after(const std::deque<VcpuPiece>& pieces,
                                                            Timestamp begin) {
  return std::ranges::lower_bound(pieces, begin, std::ranges::less_equal(), &VcpuPiece::end);
}

}  // namespace

void VcpuHistory::push(ThreadId thread, const VcpuPiece& piece) {
  if (piece.end <= piece.begin) return;
  std::deque<VcpuPiece>& pieces = threads_[thread];
  if (pieces.size() >= kMost) pieces.pop_front();
  pieces.push_back(piece);
}

void VcpuHistory::add(const GuestRun& run) {
  push(run.thread, {std::nullopt, Culprit(), run.begin, run.end});
}

void VcpuHistory::add(const ExitSpan& exit, std::span<const WaitShare> waits,
                      std::span<const WaitShare> halts) {
  std::vector<VcpuPiece> pieces;
  auto sleep = halts.begin();
  for (const PartInterval& interval : exit.intervals) {
    if (interval.part == Part::kPreempted || interval.part == Part::kBlocked) continue;
    Timestamp at = interval.begin;
    for (; interval.part == Part::kHalted && sleep != halts.end() && sleep->begin < interval.end;
         ++sleep) {
      pieces.push_back({Part::kHalted, Culprit(), at, std::max(at, sleep->begin)});
      pieces.push_back({Part::kHalted, sleep->culprit, std::max(at, sleep->begin), sleep->end});
      at = std::max(at, sleep->end);
    }
    pieces.push_back({interval.part, Culprit(), at, interval.end});
  }
  for (const WaitShare& share : waits)
    pieces.push_back({share.part, share.culprit, share.begin, share.end});
  std::ranges::stable_sort(pieces, {}, &VcpuPiece::begin);
  for (const VcpuPiece& piece : pieces) push(exit.thread, piece);
}

std::optional<Timestamp> VcpuHistory::known_until(ThreadId thread) const {
  const auto found = threads_.find(thread);
  if (found == threads_.end() || found->second.empty()) return std::nullopt;
  return found->second.back().end;
}

std::size_t VcpuHistory::count(ThreadId thread, Timestamp begin, Timestamp end) const {
  const auto found = threads_.find(thread);
  if (found == threads_.end()) return 0;
  const std::deque<VcpuPiece>& pieces = found->second;
  const auto first = first_that_ends_after(pieces, begin);
  const auto last = std::ranges::lower_bound(first, pieces.end(), end, {}, &VcpuPiece::begin);
  return static_cast<std::size_t>(last - first);
}

std::vector<VcpuPiece> VcpuHistory::between(ThreadId thread, Timestamp begin, Timestamp end) const {
  std::vector<VcpuPiece> pieces;
  const auto found = threads_.find(thread);
  if (found == threads_.end()) return pieces;
  for (auto piece = first_that_ends_after(found->second, begin);
       piece != found->second.end() && piece->begin < end; ++piece) {
    VcpuPiece cut = *piece;
    cut.begin = std::max(cut.begin, begin);
    cut.end = std::min(cut.end, end);
    // If an exit had more intervals than are kept, a later piece may overlap an earlier one.
    if (!pieces.empty()) cut.begin = std::max(cut.begin, pieces.back().end);
    if (cut.end > cut.begin) pieces.push_back(cut);
  }
  return pieces;
}

namespace {

// Returns whether `wanted` names the event, with or without its system: "irq_handler_entry" also
// names "irq:irq_handler_entry".
bool names_event(std::string_view full, std::string_view wanted) {
  return full == wanted || (full.size() > wanted.size() && full.ends_with(wanted) &&
                            full[full.size() - wanted.size() - 1] == ':');
}

// Returns the value of "field=value" in an event's text; empty if there is none.
std::string value_of(std::string_view text, const std::string& field) {
  const std::string key = field + '=';
  for (auto at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at != 0 && text[at - 1] != ' ' && text[at - 1] != ',' && text[at - 1] != '[') continue;
    const std::string_view value = text.substr(at + key.size());
    return std::string(value.substr(0, value.find_first_of(" ,]")));
  }
  return {};
}

// Returns "next_pid=12 (cyclictest)": a task with its name, if the event also has the name.
std::string value_with_name(std::string_view text, const std::string& field,
                            const std::string& value) {
  constexpr std::string_view kPid = "pid";
  std::string what = field + '=' + value;
  if (!field.ends_with(kPid)) return what;
  const std::string comm = value_of(text, field.substr(0, field.size() - kPid.size()) + "comm");
  return comm.empty() ? what : what + " (" + comm + ')';
}

// Parses EVENT or EVENT:FIELD, the start or the end in START[:FIELD]..END[:FIELD]. False if a part
// is empty.
bool parse_event(std::string_view text, std::string& name, std::string& field) {
  const auto colon = text.rfind(':');
  name = text.substr(0, colon);
  if (colon != std::string_view::npos) field = text.substr(colon + 1);
  return !name.empty() && (colon == std::string_view::npos || !field.empty());
}

}  // namespace

Result<GuestSpanSpec> parse_guest_span(std::string_view text) {
  constexpr std::string_view kFunction = "function:";
  GuestSpanSpec spec;
  spec.text = text;
  if (text.starts_with(kFunction) && text.size() > kFunction.size()) {
    spec.function = text.substr(kFunction.size());
    return spec;
  }
  constexpr std::string_view kMarker = "marker:";
  if (text.starts_with(kMarker) && text.size() > kMarker.size()) {
    spec.marker = text.substr(kMarker.size());
    return spec;
  }
  const auto dots = text.find("..");
  if (dots == std::string_view::npos ||
      !parse_event(text.substr(0, dots), spec.start, spec.start_field) ||
      !parse_event(text.substr(dots + 2), spec.end, spec.end_field) ||
      spec.start_field.empty() != spec.end_field.empty()) {
    return fail(ErrorKind::kUsage,
                "--guest-span: '{}' is not START[:FIELD]..END[:FIELD]; use {}, "
                "{}:pid..{}:next_pid, function:NAME, or marker:TEXT",
                text, example_guest_span(), events::sched_waking.name, events::sched_switch.name);
  }
  return spec;
}

std::string example_guest_span() {
  return fmt::format("{}:irq..{}:irq", events::irq_handler_entry.name,
                     events::irq_handler_exit.name);
}

std::optional<std::uint64_t> told_length(std::string_view marker, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const auto found = marker.find(text);
  if (found == std::string_view::npos) return std::nullopt;
  marker.remove_prefix(found + text.size());
  marker.remove_prefix(std::min(marker.find_first_of(kDigits), marker.size()));
  std::uint64_t value = 0;
  if (!take_number(marker, value)) return std::nullopt;
  marker.remove_prefix(std::min(marker.find_first_not_of(' '), marker.size()));
  constexpr std::pair<std::string_view, std::uint64_t> kUnits[] = {
      {"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};
  std::uint64_t size = 1'000;
  for (const auto& [name, ns] : kUnits) {
    const bool word = marker.size() == name.size() ||
                      (marker.size() > name.size() &&
                       std::isalpha(static_cast<unsigned char>(marker[name.size()])) == 0);
    if (marker.starts_with(name) && word) size = ns;
  }
  const bool fits = value <= std::numeric_limits<std::uint64_t>::max() / size;
  return fits ? std::optional(value * size) : std::nullopt;
}

GuestIntervals::GuestIntervals(GuestSpanSpec spec, TextOf event_name, TextOf event_text)
    : spec_(std::move(spec)),
      event_name_(std::move(event_name)),
      event_text_(std::move(event_text)) {}

void GuestIntervals::on(const Event& event) {
  if (const auto* call = std::get_if<GuestCall>(&event.payload)) {
    if (!spec_.function.empty()) on_call(event, *call);
  } else if (is_guest(event.machine) && spec_.function.empty()) {
    on_guest(event);
  }
}

void GuestIntervals::on(const GuestRun& run) {
  history_.add(run);
  room_ += kTimesEach;
  settle(run.thread);
}

void GuestIntervals::on(const ExitSpan& exit, std::span<const WaitShare> waits,
                        std::span<const WaitShare> halts) {
  history_.add(exit, waits, halts);
  room_ += kTimesEach * (exit.intervals.size() + waits.size() + 2 * halts.size());
  settle(exit.thread);
}

void GuestIntervals::on_call(const Event& event, const GuestCall& call) {
  if (call.off_cpu || call.name != spec_.function) return;
  const std::int64_t task = call.task != 0 ? call.task : static_cast<std::int64_t>(event.thread);
  const Key key{event.machine, task, std::to_string(call.depth)};
  if (call.entry) {
    begin_span(key, event.at);
  } else {
    end(key, event, "");
  }
}

// An event that is END and START (sched_switch) ends an interval before it begins the next.
void GuestIntervals::on_guest(const Event& event) {
  if (std::holds_alternative<Lost>(event.payload)) {
    open_.clear();
    return;
  }
  if (!spec_.marker.empty()) {
    if (const auto* marker = std::get_if<Marker>(&event.payload)) on_marker(event, marker->text);
    return;
  }
  const std::string name = event_name_(event);
  const bool starts = names_event(name, spec_.start), ends = names_event(name, spec_.end);
  if (!starts && !ends) return;
  const std::string text = event_text_(event);
  // The key is the field's value; without a field it is the CPU. A pid of 0 is that of every CPU's
  // idle thread, so it counts together with its CPU.
  const auto key_of = [&](const std::string& field) {
    const std::string value = field.empty() ? "" : value_of(text, field);
    const bool of_cpu = field.empty() || (value == "0" && field.ends_with("pid"));
    return Key{event.machine, of_cpu ? event.cpu : std::int64_t{-1}, value};
  };
  if (ends) {
    const Key key = key_of(spec_.end_field);
    end(key, event,
        spec_.end_field.empty() ? "" : value_with_name(text, spec_.end_field, std::get<2>(key)));
  }
  if (starts) begin_span(key_of(spec_.start_field), event.at);
}

void GuestIntervals::on_marker(const Event& event, std::string_view text) {
  const auto length = told_length(text, spec_.marker);
  if (!length || *length > event.at.ns()) return;
  take({event.thread, Timestamp(event.at.ns() - *length), event.at, "", {}});
}

void GuestIntervals::begin_span(Key key, Timestamp at) {
  const auto found = open_.find(key);
  if (found != open_.end()) {
    ++counters_.restarted;
    found->second = at;
  } else if (open_.size() < kMostOpen) {
    open_.emplace(std::move(key), at);
  }
}

void GuestIntervals::end(const Key& key, const Event& event, std::string what) {
  const auto found = open_.find(key);
  if (found == open_.end()) {
    ++counters_.end_only;
    return;
  }
  GuestInterval interval{event.thread, found->second, event.at, std::move(what), {}};
  open_.erase(found);
  if (interval.end >= interval.begin) take(std::move(interval));
}

void GuestIntervals::take(GuestInterval interval) {
  const ThreadId thread = interval.thread;
  if (thread == ThreadId{} || pending_[thread].size() >= kMostPending) {
    ++counters_.unplaced;
    return;
  }
  room_ += kTimesEach;
  pending_[thread].push_back(std::move(interval));
  settle(thread);
}

void GuestIntervals::settle(ThreadId thread) {
  const auto found = pending_.find(thread);
  if (found == pending_.end()) return;
  const auto known = history_.known_until(thread);
  while (known && !found->second.empty() && found->second.front().end <= *known) {
    ended_.push_back(std::move(found->second.front()));
    found->second.pop_front();
  }
}

std::optional<GuestInterval> GuestIntervals::take_ended() {
  while (!ended_.empty()) {
    GuestInterval interval = std::move(ended_.front());
    ended_.pop_front();
    const std::size_t pieces = history_.count(interval.thread, interval.begin, interval.end);
    if (pieces > room_) {
      ++counters_.unplaced;
      continue;
    }
    room_ -= pieces;
    ++counters_.intervals;
    interval.pieces = history_.between(interval.thread, interval.begin, interval.end);
    return interval;
  }
  return std::nullopt;
}

void GuestIntervals::finish() {
  for (auto& [thread, pending] : pending_) {
    for (GuestInterval& interval : pending) ended_.push_back(std::move(interval));
    pending.clear();
  }
}

}  // namespace trapline
