#include "merge/explain/guest_spans.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/report/grouping.h"
#include "merge/report/head.h"
#include "merge/report/notes.h"
#include "merge/report/report.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

constexpr std::size_t kGuest = kParts, kNotKnown = kParts + 1;
// The parts of an interval, in the order of its tree.
constexpr std::array<std::size_t, kParts + 2> kSpanParts = {kGuest, 0, 1, 2, 3, 4, kNotKnown};

bool is_wait(std::size_t part) {
  return part >= static_cast<std::size_t>(Part::kPreempted) && part < kParts;
}

std::string_view name_of_part(std::size_t part) {
  return part == kGuest ? "guest" : part == kNotKnown ? "not recorded" : kPartNames[part];
}

// Returns the part's key in JSON and CSV.
std::string key_of_part(std::size_t part) {
  return std::string(part == kNotKnown ? "not_recorded" : name_of_part(part)) + "_ns";
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
  const auto place =
      std::ranges::upper_bound(worst_, interval.length(), std::greater(), &GuestInterval::length);
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
  for (const std::size_t part : kSpanParts) {
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
    // Drops the children if the recording does not show what ended any sleep.
    if (part == static_cast<std::size_t>(Part::kHalted) && node.children.size() == 1 &&
        sums.contains({part, Culprit()}))
      node.children.clear();
    std::ranges::stable_sort(node.children, std::greater(), &ExplainNode::ns);
    root.ns += node.ns;
    root.children.push_back(std::move(node));
  }
  return root;
}

// Names the largest of the host's causes: a part or, for waits, its largest culprit.
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
  Circumstances around = circumstances_of(most->second, interval.thread, names);
  around.sleep_ns = most_ns;
  around.throttled = !names.processes.quotas.of(interval.thread).empty();
  const Cause* cause = cause_of(part, most->second, around);
  if (cause == nullptr) return span;
  span.advice = cause->advice;
  span.source = cause->source;
  return span;
}

GuestSpansExplained GuestSpans::explain(const Naming& names) {
  const GuestIntervals& intervals = *names.pipeline.guest_intervals();
  result_.spec = intervals.spec().text;
  result_.counters = intervals.counters();
  result_.clocks = guest_clocks(names.timeline);
  result_.open = intervals.open();
  result_.tree = tree(sums_, names);
  result_.tree.text = "all of them";
  result_.groups.clear();
  for (const auto& [key, group] : groups_)
    result_.groups.push_back({printable(key), group.all, tree(group.sums, names)});
  std::ranges::stable_sort(result_.groups, std::greater(),
                           [](const GuestSpanGroup& group) { return group.all.total(); });
  result_.worst.clear();
  for (const GuestInterval& interval : worst_) result_.worst.push_back(explained(interval, names));
  return result_;
}

std::vector<std::string> guest_clocks(const Timeline& timeline) {
  std::vector<std::string> clocks;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const SourceInfo& info = timeline.source(i).info();
    if (info.role == Role::kHostKernel) continue;
    const std::string error = alignment_text(info.aligned);
    clocks.push_back(info.path + ": " + (error.empty() ? "the host's clock" : error));
  }
  return clocks;
}

Result<void> check_guest_intervals(const PassEnd& pass) {
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
  explained.begun = begin_report("explain", *pass);
  return explained;
}

namespace {

std::uint64_t time_of_part(const ExplainNode& tree, std::size_t part) {
  for (const ExplainNode& child : tree.children)
    if (child.text == name_of_part(part)) return child.ns;
  return 0;
}

// A culprit that kept the vCPUs waiting in a part.
struct CulpritRow {
  const ExplainNode* part;
  const ExplainNode* culprit;
};

std::vector<CulpritRow> culprits_of(std::span<const ExplainNode> parts) {
  std::vector<CulpritRow> rows;
  for (const ExplainNode& part : parts)
    for (const ExplainNode& culprit : part.children) rows.push_back({&part, &culprit});
  return rows;
}

Table span_culprit_table(std::vector<CulpritRow> rows, std::string whole = {}) {
  using Row = CulpritRow;
  TableOf<Row> table({.key = "culprits"}, std::move(rows),
                     [](const Row& row) { return row.culprit->text; });
  table.add({"part"}, [](const Row& row) { return row.part->text; });
  table.add({"culprit"}, [](const Row& row) { return row.culprit->text; });
  table.add({"ns", "time", Unit::kDuration}, [](const Row& row) { return row.culprit->ns; });
  table.add({.title = "share", .unit = Unit::kShare, .whole = std::move(whole)},
            [](const Row& row) {
              return Share{row.culprit->ns, row.part->ns};
            });
  table.add({"count", "times"}, [](const Row& row) { return row.culprit->count; });
  return table;
}

TableOf<GuestSpanGroup> span_table(std::span<const GuestSpanGroup> groups) {
  using Row = GuestSpanGroup;
  TableOf<Row> table({.key = "spans", .csv = true}, groups, [](const Row& row) -> std::string {
    return row.key.empty() ? "not known" : row.key;
  });
  table.add({.key = "key", .csv = false}, &Row::key);
  table.add({.key = "interval", .json = false}, &Row::key);
  table.add({"count", "count"}, [](const Row& row) { return row.all.count(); });
  table.add({"total_ns", "total", Unit::kDuration}, [](const Row& row) { return row.all.total(); });
  table.add({"p50_ns", "p50", Unit::kDuration},
            [](const Row& row) { return row.all.percentile(500); });
  table.add({"p99_ns"}, [](const Row& row) { return row.all.percentile(990); });
  table.add({"max_ns", "max", Unit::kDuration}, [](const Row& row) { return row.all.max(); });
  for (const std::size_t part : kSpanParts) {
    table.add({.key = key_of_part(part),
               .title = std::string(part == kNotKnown ? "" : name_of_part(part)),
               .unit = Unit::kShare,
               .whole = "the total"},
              [part](const Row& row) {
                return Share{time_of_part(row.tree, part), row.tree.ns};
              });
  }
  return table;
}

std::vector<CounterRow> span_counters(const GuestSpansExplained& spans) {
  return {{"restarted", spans.counters.restarted, "begun again before they ended"},
          {"end_only", spans.counters.end_only, "ends of intervals that nothing began"},
          {"open", spans.open, "intervals that never ended"},
          {"unplaced", spans.counters.unplaced,
           "intervals left out: their vCPU is not known, or too many overlap"}};
}

// Adds the figures of all intervals.
void add_figures(Facts& facts, const GuestSpansExplained& spans) {
  facts.push_back({"guest_span", spans.spec});
  facts.push_back({"clocks", spans.clocks});
  facts.push_back({"count", spans.all.count()});
  facts.push_back({"total_ns", spans.all.total()});
  facts.push_back({"p50_ns", to_value(spans.all.percentile(500))});
  facts.push_back({"p99_ns", to_value(spans.all.percentile(990))});
  facts.push_back({"max_ns", spans.all.max()});
}

void add_clocks(const GuestSpansExplained& spans, std::vector<Paragraph>& text) {
  for (const std::string& clock : spans.clocks) text.push_back({.text = "clock of " + clock});
}

void end_report(Report& report, const GuestSpansExplained& spans) {
  report.tables.push_back(counter_table(span_counters(spans)));
  for (const std::string& note : report.notes) report.after.push_back(note_paragraph(note));
}

// Returns the longest intervals one by one, each as a tree.
Table worst_table(std::span<const ExplainedSpan> worst, std::uint64_t start) {
  using Row = ExplainedSpan;
  TableOf<Row> table({.key = "worst"}, worst, [](const Row& row) { return row.tree.text; });
  table.add({start == 0 ? "start_ns" : "start"},
            [start](const Row& row) { return static_cast<std::int64_t>(row.start_ns - start); });
  table.add({"sentence"}, &Row::sentence);
  table.add({"advice"}, [](const Row& row) { return text_or_null(row.advice); });
  table.add({"source"}, [](const Row& row) { return text_or_null(row.source); });
  table.text_children = true;
  table.children = [worst](std::size_t row) {
    const ExplainedSpan& span = worst[row];
    Table tree = tree_table({span.tree});
    tree.key = "tree";
    tree.before = {{.text = fmt::format("\n{}. At {}", row + 1, time_text(span.start_ns, false)),
                    .verbatim = true}};
    tree.after = {{.text = span.sentence, .figures = true}};
    if (!span.advice.empty()) {
      tree.after.push_back({.text = span.advice});
      tree.after.push_back({.text = '(' + span.source + ')'});
    }
    return std::vector<Table>{std::move(tree)};
  };
  return table;
}

// A part of one of the longest intervals; waits are divided by culprit. Parts sum to the interval.
struct WorstPart {
  std::size_t rank;
  const ExplainedSpan* span;
  const ExplainNode *part, *culprit;
};

Table worst_parts(const GuestSpansExplained& spans) {
  using Row = WorstPart;
  std::vector<Row> rows;
  for (std::size_t i = 0; i < spans.worst.size(); ++i) {
    const ExplainedSpan& span = spans.worst[i];
    for (const ExplainNode& part : span.tree.children) {
      if (part.children.empty()) rows.push_back({i + 1, &span, &part, nullptr});
      for (const ExplainNode& culprit : part.children)
        rows.push_back({i + 1, &span, &part, &culprit});
    }
  }
  TableOf<Row> table({.key = "parts", .json = false, .csv = true}, std::move(rows),
                     [](const Row& row) { return row.span->tree.text; });
  table.add({"rank"}, &Row::rank);
  table.add({"start_ns"}, [](const Row& row) { return row.span->start_ns; });
  table.add({"interval"}, [](const Row& row) { return row.span->tree.text; });
  table.add({"interval_ns"}, [](const Row& row) { return row.span->tree.ns; });
  table.add({.key = "part", .unit = Unit::kWord}, [](const Row& row) { return row.part->text; });
  table.add({"culprit"}, [](const Row& row) {
    return row.culprit == nullptr ? CellValue() : text_or_null(row.culprit->text);
  });
  table.add({"ns"},
            [](const Row& row) { return row.culprit == nullptr ? row.part->ns : row.culprit->ns; });
  return table;
}

// Returns the table of who kept the vCPUs waiting in a part, for text output.
Table culprits_in_text(const ExplainNode& part) {
  const std::string time = duration_text(part.ns, false);
  Table table = span_culprit_table(culprits_of({&part, 1}), time);
  table.json = false;
  table.titles = {part.text == "halted"    ? fmt::format("Halted {}, until", time)
                  : part.text == "blocked" ? fmt::format("Blocked {}, by", time)
                                           : fmt::format("Preempted {}, by", time)};
  return table;
}

// Returns the table for text output: the first `top` rows (0: all), and how much of all intervals
// was not recorded.
Table spans_in_text(const GuestSpansExplained& spans, std::size_t top) {
  const std::size_t shown = top == 0 ? spans.groups.size() : std::min(top, spans.groups.size());
  Table table = span_table(std::span(spans.groups).first(shown));
  table.left_out = spans.groups.size() - shown;
  table.titles = {"interval"};
  const std::uint64_t missing = time_of_part(spans.tree, kNotKnown);
  if (missing != 0)
    table.after = {{.text = fmt::format("Not recorded: {} of all of them.",
                                        percent_text(missing, spans.tree.ns)),
                    .verbatim = true}};
  return table;
}

}  // namespace

Report make_report(const GuestSpansExplained& spans) {
  const Histogram& all = spans.all;
  Report report = spans.begun;
  add_figures(report.head, spans);
  report.before = {{.text = fmt::format(
                        "{} intervals of {}: p50 {}, p99 {}, max {}", grouped(all.count()),
                        spans.spec, duration_text(all.percentile(500), false),
                        duration_text(all.percentile(990), false), duration_text(all.max(), false)),
                    .figures = true}};
  add_clocks(spans, report.before);
  report.before.emplace_back();
  Table tree = tree_table({spans.tree});
  tree.key = "tree";
  tree.after = {
      {.text = fmt::format("\nThe {} longest:", grouped(spans.worst.size())), .verbatim = true}};
  report.tables.push_back(std::move(tree));
  report.tables.push_back(worst_table(spans.worst, 0));
  report.tables.push_back(worst_parts(spans));
  end_report(report, spans);
  return report;
}

Report make_span_report(const GuestSpansExplained& spans, std::size_t top) {
  Report report = spans.begun;
  if (!report.head.empty()) report.head.front().value = "report";  // names the command
  add_figures(report.head, spans);
  report.before = {
      {.text = fmt::format("{} intervals of {}, {} together", grouped(spans.all.count()),
                           spans.spec, duration_text(spans.all.total(), false)),
       .verbatim = true}};
  add_clocks(spans, report.before);
  Table table = span_table(spans.groups);
  table.children = [&spans](std::size_t row) {
    return std::vector<Table>{span_culprit_table(culprits_of(spans.groups[row].tree.children))};
  };
  table.in_text = std::make_shared<const Table>(spans_in_text(spans, top));
  report.tables.push_back(std::move(table));
  report.tables.push_back(span_culprit_table(culprits_of(spans.tree.children)));
  for (const ExplainNode& part : spans.tree.children)
    report.tables.push_back(culprits_in_text(part));
  end_report(report, spans);
  return report;
}

std::vector<Table> page_tables(const GuestSpansExplained& spans, std::size_t most,
                               std::uint64_t start) {
  const std::span groups = std::span(spans.groups).first(std::min(most, spans.groups.size()));
  Table table = span_table(groups);
  table.left_out = spans.groups.size() - groups.size();
  add_figures(table.facts, spans);
  for (const std::size_t part : kSpanParts)
    table.facts.push_back({key_of_part(part), time_of_part(spans.tree, part)});
  for (const CounterRow& row : span_counters(spans))
    table.facts.push_back({"counters." + std::string(row.key), to_value(row.count)});
  Table culprits = span_culprit_table(culprits_of(spans.tree.children));
  Table worst = worst_table(spans.worst, start);
  culprits.key = "span_culprits";
  worst.key = "span_worst";
  return {std::move(table), std::move(culprits), std::move(worst)};
}

}  // namespace trapline
