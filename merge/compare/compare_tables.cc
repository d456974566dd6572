// The tables of a comparison, made like those of a report. A new column needs a line here and in
// docs/formats/diff.md.

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "backend_ftrace/base/text.h"
#include "merge/compare/compare.h"
#include "merge/report/common_columns.h"
#include "merge/report/dimensions.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

std::string_view unit_of(Metric metric, bool cycles) {
  if (metric == Metric::kRate) return "per_second";
  if (metric == Metric::kShare || metric == Metric::kCost) return "share";
  return cycles ? "cycles" : "ns";
}

// Returns the name of a metric in text output.
std::string_view title_of(Metric metric, const ExitModel& model) {
  if (metric == Metric::kKernel)
    return part_titles(model.known_states())[static_cast<std::size_t>(Part::kKernel)];
  return kMetricNames[static_cast<std::size_t>(metric)];
}

std::string value_text(Metric metric, double value, bool cycles) {
  if (std::isnan(value)) return "-";
  if (metric == Metric::kRate) return fmt::format("{:.4g}/s", value);
  if (metric == Metric::kShare) return fmt::format("{:.3g}%", value * 100);
  const bool of_second = metric == Metric::kCost;
  return duration_text(static_cast<std::uint64_t>(value * (of_second ? 1e9 : 1) + 0.5), cycles) +
         (of_second ? " a second" : "");
}

// Adds the figures of a metric; `get` returns a row's figure. JSON has them as an object, CSV as a
// line.
template <typename Row, typename Get>
void add_figures(TableOf<Row>& table, const std::string& prefix, Column change, Get get) {
  const auto add = [&](Column column, auto figure) {
    column.key = prefix + column.key;
    table.add(std::move(column),
              [get, figure](const Row& row) { return to_value(std::invoke(figure, get(row))); });
  };
  const auto tested = [](auto figure) {
    return [figure](const MetricChange& metric) {
      return metric.test.tested ? to_value(std::invoke(figure, metric.test)) : CellValue(Absent());
    };
  };
  add({"before"}, &MetricChange::before);
  add({"after"}, &MetricChange::after);
  change.key = "change";
  change.unit = Unit::kChange;
  add(std::move(change), [](const MetricChange& metric) {
    return Changed{metric.change, metric.test.proven, metric.test.is_vague()};
  });
  const auto runs = [](std::vector<double> RunFigures::*side) {
    return [side](const MetricChange& metric) {
      return metric.runs ? (*metric.runs).*side : std::vector<double>();
    };
  };
  add({.key = "before_runs", .csv = false}, runs(&RunFigures::before));
  add({.key = "after_runs", .csv = false}, runs(&RunFigures::after));
  add({.key = "tested", .csv = false}, [](const auto& metric) { return metric.test.tested; });
  add({.key = "proven", .csv = false}, [](const auto& metric) { return metric.test.proven; });
  add({"low"}, tested(&Change::low));
  add({"high"}, tested(&Change::high));
  add({"p"}, tested(&Change::p));
  add({"corrected_p"}, tested(&Change::corrected_p));
  add({.key = "proven", .json = false},
      tested([](const Change& test) { return std::uint64_t{test.proven}; }));
}

std::string interval_text(const MetricChange& metric) {
  if (std::isinf(metric.change) || metric.change <= -1) return "-";
  if (metric.test.is_vague()) return "too few runs to say";
  return fmt::format("{} to {}", percent_change_text(metric.test.low),
                     percent_change_text(metric.test.high));
}

// Returns the table of rows: text has the changes of times and, in a separate block, those of the
// parts; JSON has all figures.
Table change_table(const Comparison& comparison) {
  using Row = ComparedRow;
  // For each metric, when a narrow terminal drops its column: the highest number first.
  constexpr std::array<std::uint8_t, kMetrics> kDropped = {1, 2, 5, 6, 7, 0, 0, 0, 2, 1, 3};
  TableOf<Row> table({}, comparison.rows, [by = comparison.options.by](const Row& row) {
    return shown_key(row.key, by);
  });
  table.dim = [&rows = comparison.rows](std::size_t row) { return rows[row].halts; };
  table.key = "changes";
  table.left_out = comparison.rows_left_out;
  table.add({"key"}, &Row::key);
  table.add({"halts"}, &Row::halts);
  table.add({.key = "before_count", .title = "before", .drop_order = 4}, &Row::before_count);
  table.add({.key = "after_count", .title = "after", .drop_order = 3}, &Row::after_count);
  for (std::size_t i = 0; i < kMetrics; ++i) {
    const auto metric = static_cast<Metric>(i);
    const std::string name(kMetricNames[i]), prefix = name + '.';
    table.add({prefix + "unit"},
              [unit = unit_of(metric, comparison.cycles)](const Row&) { return unit; });
    Column shown = {.title = metric == Metric::kCost || !comparison.has(metric) ? ""
                             : metric == Metric::kUser
                                 ? "user (QEMU)"
                                 : std::string(title_of(metric, comparison.model)),
                    .block = metric < Metric::kKernel ? std::uint8_t{0} : std::uint8_t{1},
                    .drop_order = kDropped[i],
                    .highlight = Highlight::kProven};
    add_figures(table, prefix, std::move(shown),
                [metric](const Row& row) -> const MetricChange& { return row.of(metric); });
  }
  table.add({.title = !comparison.has(Metric::kCost) ? ""
                      : comparison.cycles            ? "cost/‰"
                                                     : "cost/ms",
             .unit = Unit::kThousandths,
             .highlight = Highlight::kProven},
            [](const Row& row) -> CellValue {
              const MetricChange& cost = row.of(Metric::kCost);
              if (row.halts) return "halt";
              if (std::isnan(cost.change)) return {};
              return Changed{row.cost(), cost.test.proven};
            });
  return table;
}

struct MetricRow {
  const ComparedRow* row;
  Metric metric;
  [[nodiscard]] const MetricChange& change() const { return row->of(metric); }
};
// Returns all metrics of all rows, or only those with a proven change.
std::vector<MetricRow> metric_rows(const Comparison& comparison, bool proven) {
  std::vector<MetricRow> rows;
  for (const ComparedRow& row : comparison.rows) {
    for (std::size_t i = 0; i < kMetrics; ++i)
      if (!proven || row.metrics[i].test.proven) rows.push_back({&row, static_cast<Metric>(i)});
  }
  return rows;
}

std::string name_of(const MetricRow& row, const Comparison& comparison) {
  return fmt::format("{} of {}", title_of(row.metric, comparison.model),
                     shown_key(row.row->key, comparison.options.by));
}

// Returns a table with a line for each of the rows. CSV gets all metrics, text the proven ones.
Table metric_table(std::vector<MetricRow> all, const Comparison& comparison) {
  using Row = MetricRow;
  const auto name = [](const Row& row) {
    return kMetricNames[static_cast<std::size_t>(row.metric)];
  };
  TableOf<Row> table({}, std::move(all),
                     [&comparison](const Row& row) { return name_of(row, comparison); });
  table.dim = [rows = table.all()](std::size_t row) { return rows[row].row->halts; };
  table.json = false;
  table.add({.key = "key", .unit = Unit::kText}, [](const Row& row) { return row.row->key; });
  table.add({.key = "metric", .unit = Unit::kWord}, name);
  const auto unit = [cycles = comparison.cycles](const Row& row) {
    return unit_of(row.metric, cycles);
  };
  table.add({.key = "unit", .unit = Unit::kWord}, unit);
  const auto value = [cycles = comparison.cycles](double MetricChange::*side) {
    return [cycles, side](const Row& row) {
      return value_text(row.metric, row.change().*side, cycles);
    };
  };
  table.add({.title = "before", .unit = Unit::kWord, .drop_order = 2},
            value(&MetricChange::before));
  table.add({.title = "after", .unit = Unit::kWord, .drop_order = 1}, value(&MetricChange::after));
  add_figures(table, "", {.title = "change"},
              [](const Row& row) -> const MetricChange& { return row.change(); });
  table.add({.title = fmt::format("{:.3g}% interval", comparison.options.confidence * 100),
             .unit = Unit::kWord,
             .drop_order = 3},
            [](const Row& row) { return interval_text(row.change()); });
  return table;
}

std::string_view rows_name(const Comparison& comparison) {
  return kCompareRowsNames[static_cast<std::size_t>(comparison.options.rows)];
}

// Returns the table of a side's runs.
Table run_table(const char* key, const std::vector<Recorded>& side) {
  using Row = Recorded;
  TableOf<Row> table({.key = key}, side, &Row::path);
  table.add({"path"}, [](const Row& row) { return printable(row.path); });
  table.add({"exits"}, &Row::exits);
  table.add({"counted"}, &Row::counted);
  table.add({"wall_ns"}, &Row::wall_ns);
  table.add({"guest_ns"}, &Row::guest_ns);
  table.add({"vcpus"}, &Row::vcpus);
  table.add({"lost"}, [](const Row& row) { return row.losses.lost_events; });
  return table;
}

void add_side(const char* label, const std::vector<Recorded>& side, const Comparison& comparison,
              std::vector<Paragraph>& text) {
  const bool cycles = comparison.cycles, exits = comparison.options.rows == CompareRows::kExits;
  for (const Recorded& recording : side)
    text.push_back(
        {.text = fmt::format("{}: {} {} in {}, the guest ran {}", printable(recording.path),
                             grouped(exits ? recording.exits : recording.counted()),
                             rows_name(comparison), duration_text(recording.wall_ns, cycles),
                             duration_text(recording.guest_ns, cycles)),
         .label = fmt::format("{:<7}", label)});
}

// Says what the figures apply to: only these recordings, or all runs of both kinds.
std::vector<Paragraph> method_text(const Comparison& comparison) {
  const std::size_t before = comparison.before.size(), after = comparison.after.size();
  std::vector<Paragraph> sentences = {
      {}, {.text = "-: too few runs, or too little on one side, to say."}};
  if (comparison.has(Metric::kCost))
    sentences.back().text += fmt::format("{} cost: time per second in which the guest ran.",
                                         comparison.has_parts() && comparison.model.sched_switch
                                             ? " share, cost: without waits for a CPU;"
                                             : "");
  if (comparison.method == Method::kNone) return sentences;
  std::string text = fmt::format(
      "*: proven by {} runs before and {} after, with {:.4g}% confidence for all {} tests "
      "together: Student's t of the runs' logarithms",
      before, after, comparison.options.confidence * 100, grouped(comparison.tests));
  if (comparison.method == Method::kStudent) {
    text += fmt::format(
        ", which assumes that they are normally distributed: {} runs of each side need not assume "
        "it.",
        kFewestForPermutation);
  } else {
    text += fmt::format(", and the largest t of {} splits of the runs, which both have to agree.",
                        grouped(comparison.splits));
  }
  if (comparison.unit > 1)
    text += fmt::format(
        " The recordings' times are whole units of {}: no smaller change of a "
        "percentile is proven.",
        duration_text(static_cast<std::uint64_t>(comparison.unit), false));
  sentences.push_back({.text = std::move(text)});
  return sentences;
}

// The runs have no interval in common: each row of a run has its own.
Facts head_of(const Comparison& comparison) {
  LossCounts losses;
  for (const auto* side : {&comparison.before, &comparison.after})
    for (const Recorded& run : *side) losses.add(run.losses);
  Facts head = head_facts("diff", comparison.cycles, 0, 0, losses);
  for (Fact& fact : head)
    if (fact.key.starts_with("interval.")) fact.value = CellValue();
  head.insert(head.end(),
              {{"user_end", to_value(name_of(comparison.model.user_end))},
               {"by", comparison.options.by},
               {"rows_of", to_value(rows_name(comparison))},
               {"confidence", comparison.options.confidence},
               {"seed", comparison.options.seed},
               {"method", to_value(kMethodNames[static_cast<std::size_t>(comparison.method)])},
               {"splits", comparison.splits},
               {"tests", comparison.tests},
               {"proven_changes", comparison.proven_changes()}});
  return head;
}

// Returns the text's first sentence.
std::string verdict_text(const Comparison& comparison) {
  constexpr std::size_t kMost = 3;
  const std::size_t before = comparison.before.size(), after = comparison.after.size();
  if (comparison.method == Method::kNone)
    return fmt::format(
        "No change is proven: {} before and {} after cannot tell whether other runs differ as "
        "these "
        "recordings do. Record at least {} runs of each side, better {} or more, in turns "
        "(trapline "
        "bench).",
        before == 1 ? "one run" : fmt::format("{} runs", before),
        after == 1 ? "one" : fmt::format("{}", after), kFewestRuns, kFewestForPermutation);
  const std::vector<MetricRow> proven = metric_rows(comparison, true);
  if (proven.empty()) return "No change is proven.";
  std::string text = fmt::format("{} change{} proven: ", grouped(proven.size()),
                                 proven.size() == 1 ? " is" : "s are");
  for (std::size_t i = 0; i < std::min(proven.size(), kMost); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", name_of(proven[i], comparison),
                        percent_change_text(proven[i].change().change));
  return text + (proven.size() > kMost ? ", …" : ".");
}

// Returns the table of the proven changes for text output, and below the table how the changes are
// proven.
Table proven_table(const Comparison& comparison) {
  std::vector<MetricRow> rows = metric_rows(comparison, true);
  const bool none = rows.empty();
  Table table = metric_table(std::move(rows), comparison);
  if (!none) table.titles = {"Proven changes"};
  for (Paragraph& sentence : method_text(comparison)) table.after.push_back(std::move(sentence));
  return table;
}

}  // namespace

Report make_report(const Comparison& comparison) {
  Report report;
  report.cycles = comparison.cycles;
  report.head = head_of(comparison);
  report.notes = comparison.warnings;
  report.before.push_back({.text = verdict_text(comparison), .figures = true});
  add_side("before:", comparison.before, comparison, report.before);
  add_side("after:", comparison.after, comparison, report.before);
  for (const std::string& warning : comparison.warnings)
    report.before.push_back(note_paragraph(warning));
  Table changes = change_table(comparison);
  if (comparison.rows.empty()) {
    changes.after = {{.text = fmt::format("\nno {}", rows_name(comparison)), .verbatim = true}};
  } else {
    changes.titles = {comparison.options.by};
    if (comparison.has_parts()) changes.titles.emplace_back("Change of the parts");
  }
  std::vector<SourceRow> sources;
  for (const auto* side : {&comparison.before, &comparison.after})
    for (const Recorded& run : *side)
      sources.insert(sources.end(), run.sources.begin(), run.sources.end());
  report.tables.push_back(source_table(std::move(sources)));
  report.tables.push_back(run_table("before", comparison.before));
  report.tables.push_back(run_table("after", comparison.after));
  report.tables.push_back(std::move(changes));
  if (comparison.options.rows == CompareRows::kFaults) {
    Table pages = page_table(comparison.before.front().pages, comparison.after.front().pages);
    if (pages.rows != 0 && comparison.before.size() + comparison.after.size() > 2)
      pages.titles = {"Pages with faults, of the first runs"};
    report.tables.push_back(std::move(pages));
  }
  if (!comparison.rows.empty()) report.tables.push_back(proven_table(comparison));
  report.tables.push_back(metric_table(metric_rows(comparison, false), comparison));
  report.tables.back().csv = true;
  return report;
}

}  // namespace trapline
