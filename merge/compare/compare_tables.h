// The tables of a comparison, as those of a report: a new column is a line there, and a line in
// docs/formats/diff.md.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "merge/compare/compare.h"
#include "merge/report/table.h"

namespace trapline {

// Text has the changes of times, and in a block of their own those of the parts; JSON has all
// figures.
[[nodiscard]] Table change_table(const Comparison& comparison);

struct MetricRow {
  const ComparedRow* row;
  Metric metric;
  [[nodiscard]] const MetricChange& change() const { return row->of(metric); }
};
// All metrics of all rows, or those whose change is proven.
[[nodiscard]] std::vector<MetricRow> metric_rows(const Comparison& comparison, bool proven);
// A line for each: of CSV, and of text those that are proven.
[[nodiscard]] Table metric_table(std::vector<MetricRow> rows, const Comparison& comparison);

// Of diff and bench: docs/formats/diff.md. Borrows the comparison.
[[nodiscard]] Report make_report(const Comparison& comparison);

}  // namespace trapline
