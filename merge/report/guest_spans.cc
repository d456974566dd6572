#include "merge/report/guest_spans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "backend_ftrace/base/text.h"
#include "merge/report/notes.h"

namespace trapline {
namespace {

constexpr std::size_t kGuest = kParts, kNotKnown = kParts + 1;

// "irq_handler_entry" of "irq:irq_handler_entry" as well as of itself.
bool names_event(std::string_view full, std::string_view wanted) {
  return full == wanted || (full.size() > wanted.size() && full.ends_with(wanted) &&
                            full[full.size() - wanted.size() - 1] == ':');
}

// The value of "field=value" in an event's text; empty where it has none.
std::string value_of(std::string_view text, const std::string& field) {
  const std::string key = field + '=';
  for (auto at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at != 0 && text[at - 1] != ' ' && text[at - 1] != ',' && text[at - 1] != '[') continue;
    const std::string_view value = text.substr(at + key.size());
    return std::string(value.substr(0, value.find_first_of(" ,]")));
  }
  return {};
}

// "next_pid=12 (cyclictest)": a task with its name, where the event has it beside.
std::string value_with_name(std::string_view text, const std::string& field,
                            const std::string& value) {
  constexpr std::string_view kPid = "pid";
  std::string what = field + '=' + value;
  if (!field.ends_with(kPid)) return what;
  const std::string comm = value_of(text, field.substr(0, field.size() - kPid.size()) + "comm");
  return comm.empty() ? what : what + " (" + comm + ')';
}

bool is_wait(std::size_t part) {
  return part == static_cast<std::size_t>(Part::kPreempted) ||
         part == static_cast<std::size_t>(Part::kBlocked) ||
         part == static_cast<std::size_t>(Part::kHalted);
}

std::string_view name_of_part(std::size_t part) {
  return part == kGuest ? "guest" : part == kNotKnown ? "not recorded" : kPartNames[part];
}

// START or END with its field.
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
                "--guest-span: '{}' is not START[:FIELD]..END[:FIELD]; use "
                "irq_handler_entry:irq..irq_handler_exit:irq, sched_waking:pid..sched_switch:"
                "next_pid, function:NAME, or marker:TEXT",
                text);
  }
  return spec;
}

std::optional<std::uint64_t> told_length(std::string_view marker, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const auto found = marker.find(text);
  if (found == std::string_view::npos) return std::nullopt;
  marker.remove_prefix(found + text.size());
  marker.remove_prefix(std::min(marker.find_first_of(kDigits), marker.size()));
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(marker.data(), marker.data() + marker.size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;
  marker.remove_prefix(static_cast<std::size_t>(parsed.ptr - marker.data()));
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

GuestSpans::GuestSpans(const Timeline& timeline, GuestSpanSpec spec, std::size_t worst)
    : timeline_(timeline), spec_(std::move(spec)), most_(worst) {
  result_.spec = spec_.text;
}

bool GuestSpans::is(const Event& event, const std::string& wanted) const {
  return names_event(timeline_.source(event.source).event_name(event), wanted);
}

void GuestSpans::event(const Event& event, const Pipeline& pipeline) {
  pipeline_ = &pipeline;
  if (const GuestRun* run = pipeline.exits().guest_run()) {
    history_.add(*run);
    settle(run->thread);
  }
  if (const auto* call = std::get_if<GuestCall>(&event.payload)) {
    if (!spec_.function.empty()) on_call(event, *call);
  } else if (is_guest(event.machine) && spec_.function.empty()) {
    on_guest(event);
  }
}

void GuestSpans::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  pipeline_ = &pipeline;
  history_.add(exit, pipeline.waits()->shares(), pipeline.waits()->halts());
  settle(exit.thread);
}

void GuestSpans::on_call(const Event& event, const GuestCall& call) {
  if (call.off_cpu || call.name != spec_.function) return;
  const std::int64_t task = call.task != 0 ? call.task : static_cast<std::int64_t>(event.thread);
  const Key key{event.machine, task, std::to_string(call.depth)};
  if (call.entry) {
    begin_span(key, event.at);
  } else {
    end(key, event, "");
  }
}

// An END that also is a START (sched_switch) ends before it begins the next.
void GuestSpans::on_guest(const Event& event) {
  if (std::holds_alternative<Lost>(event.payload)) {
    open_.clear();
    return;
  }
  if (!spec_.marker.empty()) {
    if (const auto* marker = std::get_if<Marker>(&event.payload)) on_marker(event, marker->text);
    return;
  }
  const bool starts = is(event, spec_.start), ends = is(event, spec_.end);
  if (!starts && !ends) return;
  const std::string text = timeline_.source(event.source).event_text(event);
  const auto key_of = [&](const std::string& field) {
    return field.empty() ? Key{event.machine, event.cpu, ""}
                         : Key{event.machine, -1, value_of(text, field)};
  };
  if (ends) {
    const Key key = key_of(spec_.end_field);
    end(key, event,
        spec_.end_field.empty() ? "" : value_with_name(text, spec_.end_field, std::get<2>(key)));
  }
  if (starts) begin_span(key_of(spec_.start_field), event.at);
}

void GuestSpans::on_marker(const Event& event, std::string_view text) {
  const auto length = told_length(text, spec_.marker);
  if (!length || *length > event.at.ns()) return;
  take({event.thread, Timestamp(event.at.ns() - *length), event.at, "", {}});
}

void GuestSpans::begin_span(Key key, Timestamp at) {
  const auto found = open_.find(key);
  if (found != open_.end()) {
    ++result_.restarted;
    found->second = at;
  } else if (open_.size() < kMostOpen) {
    open_.emplace(std::move(key), at);
  }
}

void GuestSpans::end(const Key& key, const Event& event, std::string what) {
  const auto found = open_.find(key);
  if (found == open_.end()) {
    ++result_.end_only;
    return;
  }
  Interval interval{event.thread, found->second, event.at, std::move(what), {}};
  open_.erase(found);
  if (interval.end >= interval.begin) take(std::move(interval));
}

void GuestSpans::take(Interval interval) {
  if (interval.thread == ThreadId{}) {
    ++result_.unplaced;
    return;
  }
  const auto known = history_.known_until(interval.thread);
  std::deque<Interval>& pending = pending_[interval.thread];
  if (known && *known >= interval.end && pending.empty()) {
    finish(std::move(interval));
  } else if (pending.size() < kMostPending) {
    pending.push_back(std::move(interval));
  } else {
    ++result_.unplaced;
  }
}

void GuestSpans::settle(ThreadId thread) {
  const auto found = pending_.find(thread);
  if (found == pending_.end()) return;
  const auto known = history_.known_until(thread);
  while (known && !found->second.empty() && found->second.front().end <= *known) {
    finish(std::move(found->second.front()));
    found->second.pop_front();
  }
}

void GuestSpans::finish(Interval interval) {
  interval.pieces = history_.between(interval.thread, interval.begin, interval.end);
  if (taker_ != nullptr) taker_->guest_span(interval, *pipeline_);
  result_.all.add(interval.length());
  const bool fits = groups_.size() < kMostGroups || groups_.contains(interval.what);
  Group& group = groups_[fits ? interval.what : "[other]"];
  group.all.add(interval.length());
  for (const auto& [key, sum] : sums_of(interval)) {
    for (Sums* sums : {&sums_, &group.sums}) {
      Sum& all = (*sums)[key];
      all.ns += sum.ns;
      all.count += sum.count;
    }
  }
  const auto place = std::upper_bound(
      worst_.begin(), worst_.end(), interval,
      [](const Interval& a, const Interval& b) { return a.length() > b.length(); });
  worst_.insert(place, std::move(interval));
  if (worst_.size() > most_) worst_.pop_back();
}

GuestSpans::Sums GuestSpans::sums_of(const Interval& interval) {
  Sums sums;
  std::uint64_t known = 0;
  for (const VcpuPiece& piece : interval.pieces) {
    const std::size_t part = piece.part ? static_cast<std::size_t>(*piece.part) : kGuest;
    Sum& sum = sums[{part, piece.culprit}];
    sum.ns += piece.length();
    ++sum.count;
    known += piece.length();
  }
  if (known < interval.length()) sums[{kNotKnown, Culprit()}] = {interval.length() - known, 1};
  return sums;
}

ExplainNode GuestSpans::tree(const Sums& sums, const CulpritNames& names) {
  ExplainNode root;
  std::vector<std::size_t> order{kGuest};
  for (std::size_t part = 0; part < kParts; ++part) order.push_back(part);
  order.push_back(kNotKnown);
  for (const std::size_t part : order) {
    ExplainNode node{std::string(name_of_part(part)), 0, 0, {}};
    for (const auto& [key, sum] : sums) {
      if (key.first != part) continue;
      node.ns += sum.ns;
      if (!is_wait(part)) continue;
      const bool awake = part == static_cast<std::size_t>(Part::kHalted) && key.second == Culprit();
      node.children.push_back(
          {awake ? "awake in between, or polling" : names.text(key.second), sum.ns, sum.count, {}});
    }
    if (node.ns == 0) continue;
    // Nothing tells who ended a sleep.
    if (part == static_cast<std::size_t>(Part::kHalted) && node.children.size() == 1 &&
        sums.contains({part, Culprit()}))
      node.children.clear();
    std::stable_sort(node.children.begin(), node.children.end(),
                     [](const ExplainNode& a, const ExplainNode& b) { return a.ns > b.ns; });
    root.ns += node.ns;
    root.children.push_back(std::move(node));
  }
  return root;
}

// The largest of the host's causes: a part, of waits its largest culprit.
ExplainedSpan GuestSpans::explained(const Interval& interval, const CulpritNames& names) const {
  ExplainedSpan span;
  span.start_ns = interval.begin.ns();
  const Sums sums = sums_of(interval);
  span.tree = tree(sums, names);
  span.tree.text = names.vcpus.vcpu(interval.thread, true);
  if (!interval.what.empty()) span.tree.text += ", " + printable(interval.what);
  const std::pair<std::size_t, Culprit>* most = nullptr;
  std::uint64_t most_ns = 0;
  for (const auto& [key, sum] : sums) {
    if (key.first == kGuest || key.first == kNotKnown || sum.ns <= most_ns) continue;
    most = &key;
    most_ns = sum.ns;
  }
  if (most == nullptr) {
    span.sentence = "The host took nothing of it, as far as was recorded.";
    return span;
  }
  const auto part = static_cast<Part>(most->first);
  const double share = 100.0 * static_cast<double>(most_ns) /
                       static_cast<double>(std::max(interval.length(), std::uint64_t{1}));
  const std::string who = part == Part::kPreempted
                              ? "ready to run, and " + names.ran_instead(most->second)
                          : part == Part::kBlocked    ? "asleep " + names.slept_for(most->second)
                          : part == Part::kUser       ? "in QEMU"
                          : part != Part::kHalted     ? "in the host's kernel"
                          : most->second == Culprit() ? "halted"
                                                      : "halted " + names.slept_for(most->second);
  span.sentence = fmt::format("During {:.1f} % of it the vCPU was {}.", share, who);
  Circumstances around = circumstances_of(most->second, names);
  around.throttled = !names.processes.quotas().of(interval.thread).empty();
  const Cause* cause =
      cause_of(part == Part::kHalted ? Part::kBlocked : part, most->second, around);
  if (cause == nullptr) return span;
  span.advice = cause->advice;
  span.source = cause->source;
  return span;
}

void GuestSpans::flush(const Pipeline& pipeline) {
  pipeline_ = &pipeline;
  for (auto& [thread, pending] : pending_) {
    for (Interval& interval : pending) finish(std::move(interval));
    pending.clear();
  }
}

Result<void> GuestSpans::check_found() const {
  if (result_.all.count() != 0) return {};
  return fail(ErrorKind::kUsage, "--guest-span: {}: no interval of '{}' {}; {}",
              timeline_.source(0).info().path, spec_.text,
              result_.unplaced != 0 ? "has a known vCPU" : "was recorded",
              guest_clocks(timeline_).empty()
                  ? "give the recording that was made in the guest as well"
                  : "trapline info lists the events of the guest's recording");
}

GuestSpansExplained GuestSpans::explain(const Pipeline& pipeline) {
  flush(pipeline);
  const std::vector<VcpuThread> threads = vcpu_threads(pipeline.exits().vcpus(), timeline_);
  const VcpuNames vcpus(threads, find_vms(threads, pipeline.processes()));
  const CulpritNames names{pipeline.names(), timeline_, vcpus, pipeline.processes()};
  result_.clocks = guest_clocks(timeline_);
  result_.open = open_.size();
  result_.tree = tree(sums_, names);
  result_.tree.text = "all of them";
  result_.groups.clear();
  for (const auto& [key, group] : groups_) {
    result_.groups.push_back({printable(key), group.all, tree(group.sums, names)});
  }
  std::stable_sort(result_.groups.begin(), result_.groups.end(),
                   [](const GuestSpanGroup& a, const GuestSpanGroup& b) {
                     return a.all.total() > b.all.total();
                   });
  result_.worst.clear();
  for (const Interval& interval : worst_) result_.worst.push_back(explained(interval, names));
  return result_;
}

std::vector<std::string> guest_clocks(const Timeline& timeline) {
  std::vector<std::string> clocks;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const SourceInfo& info = timeline.source(i).info();
    if (info.role == Role::kHostKernel) continue;
    const std::string error =
        info.error_ns ? fmt::format("± {} ns", *info.error_ns) : "error not known";
    clocks.push_back(fmt::format("{}: {}, {}{}", info.path, error, info.method,
                                 info.one_boot_error_ns ? ", one boot assumed" : ""));
    if (info.rate_change_ppm)
      clocks.back() += fmt::format("; assumed: a rate that changes by at most {:.3g} ppm",
                                   *info.rate_change_ppm);
  }
  return clocks;
}

Result<GuestSpansExplained> run_guest_spans(const InputOptions& input, const GuestSpanSpec& spec,
                                            std::size_t worst, const Progress& progress) {
  auto pass = Pass::open({input, {}, {}, {}, {}}, progress);
  if (!pass) return tl::unexpected(std::move(pass).error());
  GuestSpans spans(pass->timeline(), spec, worst);
  if (auto read = pass->run({&spans}, progress); !read)
    return tl::unexpected(std::move(read).error());
  if (!pass->status()) return tl::unexpected(pass->status().error());
  if (auto found = pass->check_exits(); !found) return tl::unexpected(std::move(found).error());
  GuestSpansExplained explained = spans.explain(pass->pipeline());
  if (auto found = spans.check_found(); !found) return tl::unexpected(std::move(found).error());
  explained.notes = pass->input().notes;
  for (std::string& note : notes_of(pass->pipeline().exits().model()))
    explained.notes.push_back(std::move(note));
  return explained;
}

}  // namespace trapline
