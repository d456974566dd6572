#include "merge/render/diff_render.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backend_ftrace/base/text.h"
#include "merge/compare/compare_tables.h"
#include "merge/render/tables.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

std::string_view rows_name(const Comparison& comparison) {
  return kCompareRowsNames[static_cast<std::size_t>(comparison.rows_of)];
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

// How far the figures go: between these recordings, or between all runs of both kinds.
void print_method(const Comparison& comparison, std::ostream& out, const TextStyle& style) {
  const std::size_t before = comparison.before.size(), after = comparison.after.size();
  out << '\n';
  print_wrapped("-: too little on one side to tell. cost: time per second in which the guest ran.",
                out, style);
  if (comparison.method == Method::kNone) {
    print_wrapped(
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
  print_wrapped(text, out, style);
}

}  // namespace

void print_text(const Comparison& comparison, std::ostream& out, const TextStyle& style) {
  print_side("before:", comparison.before, comparison, out, style);
  print_side("after:", comparison.after, comparison, out, style);
  for (const std::string& warning : comparison.warnings)
    print_wrapped("note:", warning, out, style, {.label = kBold});
  if (comparison.rows.empty()) {
    out << "\nno " << rows_name(comparison) << '\n';
    return;
  }
  const Table changes = change_table(comparison);
  print_table(changes, comparison.by, comparison.cycles, out, style);
  if (comparison.has_parts())
    print_table(changes, "Change of the parts", comparison.cycles, out, style, 1);
  const std::vector<MetricRow> proven = metric_rows(comparison, true);
  if (!proven.empty())
    print_table(metric_table(proven, comparison), "Proven changes", comparison.cycles, out, style);
  else if (comparison.method != Method::kNone)
    out << "\nNo change is proven.\n";
  print_method(comparison, out, style);
}

void print_json(const Comparison& comparison, std::ostream& out) {
  const Json json = {{"version", 2},
                     {"by", comparison.by},
                     {"rows_of", rows_name(comparison)},
                     {"cycles", comparison.cycles},
                     {"user_end", name_of(comparison.model.user_end)},
                     {"confidence", comparison.confidence},
                     {"seed", comparison.seed},
                     {"method", kMethodNames[static_cast<std::size_t>(comparison.method)]},
                     {"splits", comparison.splits},
                     {"tests", comparison.tests},
                     {"proven_changes", comparison.proven_changes()},
                     {"before", rows_json(run_table(comparison.before))},
                     {"after", rows_json(run_table(comparison.after))},
                     {"rows", rows_json(change_table(comparison))},
                     {"rows_left_out", comparison.rows_left_out},
                     {"warnings", comparison.warnings}};
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

void print_csv(const Comparison& comparison, std::ostream& out) {
  const std::vector<MetricRow> rows = metric_rows(comparison, false);
  print_csv(metric_table(rows, comparison), out);
}

void print_folded(const Comparison& comparison, std::ostream& out) {
  for (const FoldedDifference& one : comparison.flame)
    out << fmt::format("{} {} {}\n", one.stack, one.before_ns, one.after_ns);
}

}  // namespace trapline
