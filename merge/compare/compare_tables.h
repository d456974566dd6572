// The tables of a comparison, made like those of a report. A new column needs a line in
// compare_tables.cc and in docs/formats/diff.md.
#pragma once

#include <vector>

#include "merge/compare/compare.h"
#include "merge/report/table.h"

namespace trapline {

// Returns the table of rows: text has the changes of times and, in a separate block, those of the
// parts; JSON has all figures.
[[nodiscard]] Table change_table(const Comparison& comparison);

struct MetricRow {
  const ComparedRow* row;
  Metric metric;
  [[nodiscard]] const MetricChange& change() const { return row->of(metric); }
};
// Returns all metrics of all rows, or only those with a proven change.
[[nodiscard]] std::vector<MetricRow> metric_rows(const Comparison& comparison, bool proven);
// Returns a table with a line for each of the rows. CSV gets all metrics, text the proven ones.
[[nodiscard]] Table metric_table(std::vector<MetricRow> rows, const Comparison& comparison);

// Makes the report of diff and bench (docs/formats/diff.md); borrows the comparison.
[[nodiscard]] Report make_report(const Comparison& comparison);

}  // namespace trapline
