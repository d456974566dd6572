#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "backend_ftrace/base/text.h"
#include "merge/render/diff_render.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

std::string signed_percent(double change) {
  if (std::isinf(change)) return "new";
  if (change <= -1) return "gone";
  if (change >= 9.995) return fmt::format("x{:.3g}", 1 + change);
  return fmt::format("{:+.1f}%", change * 100);
}

// "*": proven; "-": one side has too little to tell, or the figure does not apply.
std::string change_cell(const MetricChange& metric) {
  if (std::isnan(metric.change)) return "-";
  return (metric.test.proven ? "*" : "") + signed_percent(metric.change);
}

std::string_view rows_name(const Comparison& comparison) {
  return kCompareRowsNames[static_cast<std::size_t>(comparison.rows_of)];
}

std::string value_text(Metric metric, double value, bool cycles) {
  if (std::isnan(value)) return "-";
  switch (metric) {
    case Metric::kRate:
      return fmt::format("{:.4g}/s", value);
    case Metric::kShare:
      return fmt::format("{:.3g}%", value * 100);
    case Metric::kCost:
      return duration_text(static_cast<std::uint64_t>(value * 1e9 + 0.5), cycles) + " a second";
    default:
      return duration_text(static_cast<std::uint64_t>(value + 0.5), cycles);
  }
}

void print_side(std::string_view label, const std::vector<ComparedRecording>& side,
                const Comparison& comparison, std::ostream& out, const TextStyle& style) {
  const bool cycles = comparison.cycles, exits = comparison.rows_of == CompareRows::kExits;
  for (const ComparedRecording& recording : side) {
    const std::string text = fmt::format(
        "{}: {} {} in {}, the guest ran {}", printable(recording.path),
        grouped(exits ? recording.exits : recording.counted), rows_name(comparison),
        duration_text(recording.wall_ns, cycles), duration_text(recording.guest_ns, cycles));
    print_wrapped(fmt::format("{:<7}", label), text, out, style);
  }
}

// A title that goes where a terminal is narrow, the highest first.
TextTable::Column going(std::string title, std::uint8_t goes) {
  TextTable::Column column(std::move(title));
  column.goes = goes;
  return column;
}

void mark_proven(TextTable& table, const ComparedRow& row, std::span<const Metric> metrics,
                 std::size_t first) {
  for (std::size_t i = 0; i < metrics.size(); ++i)
    if (row.of(metrics[i]).test.proven) table.mark(first + i, kBold);
}

void print_changes(const Comparison& comparison, std::ostream& out, const TextStyle& style) {
  constexpr Metric kShown[] = {Metric::kRate, Metric::kMean,  Metric::kP50,
                               Metric::kP99,  Metric::kShare, Metric::kCost};
  TextTable table({comparison.by, going("before", 4), going("after", 3), going("rate", 1),
                   going("mean", 2), going("p50", 5), going("p99", 6), going("share", 7),
                   comparison.cycles ? "cost/‰" : "cost/ms"});
  for (const ComparedRow& row : comparison.rows) {
    std::vector<std::string> cells = {row.key, grouped(row.before_count), grouped(row.after_count)};
    for (const Metric metric : std::span(kShown).first(std::size(kShown) - 1))
      cells.push_back(change_cell(row.of(metric)));
    const MetricChange& cost = row.of(Metric::kCost);
    cells.push_back(row.halts ? "halt"
                    : std::isnan(cost.change)
                        ? "-"
                        : fmt::format("{}{:+.3g}", cost.test.proven ? "*" : "", row.cost() * 1e3));
    table.add(std::move(cells), row.halts);
    mark_proven(table, row, kShown, 3);
  }
  out << '\n';
  table.print(out, style);
}

void print_parts(const Comparison& comparison, std::ostream& out, const TextStyle& style) {
  if (!comparison.has_parts()) return;
  constexpr Metric kShown[] = {Metric::kKernel, Metric::kUser, Metric::kPreempted, Metric::kBlocked,
                               Metric::kHalted};
  TextTable table({"Change of the parts", "kernel", "user (QEMU)", going("preempted", 2),
                   going("blocked", 1), going("halted", 3)});
  for (const ComparedRow& row : comparison.rows) {
    std::vector<std::string> cells = {row.key};
    for (const Metric part : kShown) cells.push_back(change_cell(row.of(part)));
    table.add(std::move(cells), row.halts);
    mark_proven(table, row, kShown, 1);
  }
  out << '\n';
  table.print(out, style);
}

void print_proven(const Comparison& comparison, std::ostream& out, const TextStyle& style) {
  TextTable table({"Proven changes", going("before", 2), going("after", 1), "change",
                   going(fmt::format("{:.3g}% interval", comparison.confidence * 100), 3)});
  for (const ComparedRow& row : comparison.rows) {
    for (std::size_t i = 0; i < kMetrics; ++i) {
      const MetricChange& metric = row.metrics[i];
      if (!metric.test.proven) continue;
      const auto value = [&](double number) {
        return value_text(static_cast<Metric>(i), number, comparison.cycles);
      };
      table.add({fmt::format("{} of {}", kMetricNames[i], row.key), value(metric.before),
                 value(metric.after), signed_percent(metric.change),
                 std::isinf(metric.change) || metric.change <= -1
                     ? "-"
                     : fmt::format("{} to {}", signed_percent(metric.test.low),
                                   signed_percent(metric.test.high))},
                row.halts);
    }
  }
  if (table.empty()) {
    out << "\nNo change is proven.\n";
    return;
  }
  out << '\n';
  table.print(out, style);
}

// How far the figures go: between these recordings, or between all runs of both kinds.
void print_method(const Comparison& comparison, std::ostream& out, const TextStyle& style) {
  const std::size_t before = comparison.before.size(), after = comparison.after.size();
  out << '\n';
  print_wrapped("",
                "-: too little on one side to tell. cost: time per second in which the guest ran.",
                out, style);
  if (comparison.method == Method::kNone) {
    print_wrapped(
        "",
        fmt::format("The figures differ by this between these recordings. {} before and {} after "
                    "cannot tell whether other runs differ too: runs of the same guest also do. "
                    "Record at least {} runs of each side, better {} or more, in turns (trapline "
                    "bench).",
                    before == 1 ? "One run" : fmt::format("{} runs", before),
                    after == 1 ? "one" : fmt::format("{}", after), kFewestRuns,
                    kFewestForPermutation),
        out, style);
    return;
  }
  std::string text = fmt::format(
      "*: proven by {} runs before and {} after, with {:.4g}% confidence for all {} tests "
      "together: "
      "Student's t of the runs' logarithms",
      before, after, comparison.confidence * 100, grouped(comparison.tests));
  if (comparison.method == Method::kStudent) {
    text += fmt::format(
        ", which assumes that they are normally distributed: {} runs of each side need not assume "
        "it.",
        kFewestForPermutation);
  } else {
    text += fmt::format(", and the largest t of {} splits of the runs, which both have to agree.",
                        grouped(comparison.splits));
  }
  print_wrapped("", text, out, style);
}

}  // namespace

std::string_view unit_of(Metric metric, bool cycles) {
  switch (metric) {
    case Metric::kRate:
      return "per_second";
    case Metric::kShare:
    case Metric::kCost:
      return "share";
    default:
      return cycles ? "cycles" : "ns";
  }
}

void print_text(const Comparison& comparison, std::ostream& out, const TextStyle& style) {
  print_side("before:", comparison.before, comparison, out, style);
  print_side("after:", comparison.after, comparison, out, style);
  for (const std::string& warning : comparison.warnings)
    print_wrapped("note:", warning, out, style, {.label = kBold});
  if (comparison.rows.empty()) {
    out << "\nno " << rows_name(comparison) << '\n';
    return;
  }
  print_changes(comparison, out, style);
  print_left_out(comparison.rows_left_out, out);
  print_parts(comparison, out, style);
  if (comparison.method != Method::kNone) print_proven(comparison, out, style);
  print_method(comparison, out, style);
}

}  // namespace trapline
