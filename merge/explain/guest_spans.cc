#include "merge/explain/guest_spans.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "backend_ftrace/base/text.h"
#include "merge/report/keyed_rows.h"
#include "merge/report/notes.h"

namespace trapline {
namespace {

constexpr std::size_t kGuest = kParts, kNotKnown = kParts + 1;

bool is_wait(std::size_t part) {
  return part == static_cast<std::size_t>(Part::kPreempted) ||
         part == static_cast<std::size_t>(Part::kBlocked) ||
         part == static_cast<std::size_t>(Part::kHalted);
}

std::string_view name_of_part(std::size_t part) {
  return part == kGuest ? "guest" : part == kNotKnown ? "not recorded" : kPartNames[part];
}

}  // namespace

void GuestSpans::guest_interval(const GuestInterval& interval, const Pipeline&) {
  result_.all.add(interval.length());
  Group& group = bounded(groups_, interval.what, kMostGroups, std::string("[other]"));
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
      [](const GuestInterval& a, const GuestInterval& b) { return a.length() > b.length(); });
  if (place == worst_.end() && worst_.size() >= most_) return;
  worst_.insert(place, interval);
  if (worst_.size() > most_) worst_.pop_back();
}

GuestSpans::Sums GuestSpans::sums_of(const GuestInterval& interval) {
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

ExplainNode GuestSpans::tree(const Sums& sums, const Naming& names) {
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
          {awake ? "awake in between: polling, in QEMU, or ready to run" : names.text(key.second),
           sum.ns,
           sum.count,
           {}});
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
ExplainedSpan GuestSpans::explained(const GuestInterval& interval, const Naming& names) const {
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
  span.sentence = fmt::format("During {:.1f}% of it the vCPU was {}.", share, who);
  Circumstances around = circumstances_of(most->second, names);
  around.sleep_ns = most_ns;
  around.throttled = !names.processes.quotas().of(interval.thread).empty();
  const Cause* cause = cause_of(part, most->second, around);
  if (cause == nullptr) return span;
  span.advice = cause->advice;
  span.source = cause->source;
  return span;
}

GuestSpansExplained GuestSpans::explain(const Naming& names) {
  const GuestIntervals& intervals = *names.pipeline.guest_intervals();
  const GuestIntervals::Counters& counters = intervals.counters();
  result_.spec = intervals.spec().text;
  result_.restarted = counters.restarted;
  result_.end_only = counters.end_only;
  result_.unplaced = counters.unplaced;
  result_.clocks = guest_clocks(names.timeline);
  result_.open = intervals.open();
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
  for (const GuestInterval& interval : worst_) result_.worst.push_back(explained(interval, names));
  return result_;
}

std::vector<std::string> guest_clocks(const Timeline& timeline) {
  std::vector<std::string> clocks;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const SourceInfo& info = timeline.source(i).info();
    if (info.role == Role::kHostKernel) continue;
    const SourceAlignment& aligned = info.aligned;
    const std::string error =
        aligned.error_ns ? fmt::format("± {} ns", *aligned.error_ns) : "error not known";
    clocks.push_back(fmt::format("{}: {}, {}", info.path, error, aligned.text()));
    if (aligned.rate_change_ppm)
      clocks.back() += fmt::format("; assumed: a rate that changes by at most {:.3g} ppm",
                                   *aligned.rate_change_ppm);
  }
  return clocks;
}

Result<void> check_guest_intervals(const Pass& pass) {
  const GuestIntervals& intervals = *pass.pipeline().guest_intervals();
  if (intervals.counters().intervals != 0) return {};
  return fail(ErrorKind::kUsage, "--guest-span: {}: no interval of '{}' {}; {}", pass.path(),
              intervals.spec().text,
              intervals.counters().unplaced != 0 ? "has a known vCPU" : "was recorded",
              guest_clocks(pass.timeline()).empty()
                  ? "give the recording that was made in the guest as well"
                  : "trapline info lists the events of the guest's recording");
}

Result<GuestSpansExplained> run_guest_spans(const PassOptions& what, std::size_t worst,
                                            const Progress& progress) {
  GuestSpans spans(worst);
  auto pass = Pass::read(what, {&spans}, progress);
  if (!pass) return tl::unexpected(std::move(pass).error());
  if (auto found = pass->check_exits(); !found) return tl::unexpected(std::move(found).error());
  if (auto found = check_guest_intervals(*pass); !found)
    return tl::unexpected(std::move(found).error());
  GuestSpansExplained explained = spans.explain(pass->naming());
  explained.notes = notes_of(*pass);
  return explained;
}

}  // namespace trapline
