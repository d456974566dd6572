#include <fmt/format.h>

#include <cmath>

#include "backend_ftrace/base/quoted_text.h"
#include "merge/render/diff_render.h"

namespace trapline {
namespace {

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

}  // namespace

void print_csv(const Comparison& comparison, std::ostream& out) {
  out << "key,metric,unit,before,after,change,low,high,p,corrected_p,proven\n";
  for (const ComparedRow& row : comparison.rows) {
    for (std::size_t i = 0; i < kMetrics; ++i) {
      const MetricChange& metric = row.metrics[i];
      out << fmt::format("{},{},{},{},{},{}", csv_cell(row.key), kMetricNames[i],
                         unit_of(static_cast<Metric>(i), comparison.cycles), number(metric.before),
                         number(metric.after), number(metric.change));
      const Change& test = metric.test;
      if (test.tested) {
        out << fmt::format(",{},{},{},{},{}\n", number(test.low), number(test.high), test.p,
                           test.corrected_p, test.proven ? 1 : 0);
      } else {
        out << ",,,,,\n";
      }
    }
  }
}

void print_folded(const Comparison& comparison, std::ostream& out) {
  for (const FoldedDifference& one : comparison.flame) {
    out << fmt::format("{} {} {}\n", one.stack, one.before_ns, one.after_ns);
  }
}

}  // namespace trapline
