#include "merge/report/compare_fail_if.h"

#include <charconv>
#include <cmath>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

std::string all_metrics() {
  std::string all;
  for (const std::string_view name : kMetricNames) {
    all += (all.empty() ? "" : ", ") + std::string(name);
  }
  return all;
}

tl::unexpected<Error> no_condition(std::string_view text) {
  return fail(ErrorKind::kUsage,
              "--fail-if: '{}' is not a condition; write METRIC(ROW) > +N% or METRIC(ROW) < -N%, "
              "with a METRIC of {} and a ROW of --by, or *",
              text, all_metrics());
}

}  // namespace

Result<FailCondition> parse_fail_condition(std::string_view text) {
  FailCondition condition;
  condition.text = std::string(trimmed(text));
  const std::string_view all = condition.text;
  const auto open = all.find('('), close = all.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return no_condition(text);
  }
  const std::string_view name = trimmed(all.substr(0, open));
  bool known = false;
  for (std::size_t i = 0; i < kMetrics; ++i) {
    if (kMetricNames[i] != name) continue;
    condition.metric = static_cast<Metric>(i);
    known = true;
  }
  condition.row = std::string(trimmed(all.substr(open + 1, close - open - 1)));
  std::string_view rest = trimmed(all.substr(close + 1));
  if (!known || condition.row.empty() || rest.size() < 3 || rest.back() != '%' ||
      (rest[0] != '>' && rest[0] != '<')) {
    return no_condition(text);
  }
  condition.above = rest[0] == '>';
  rest = trimmed(rest.substr(1, rest.size() - 2));
  if (!rest.empty() && rest[0] == '+') rest.remove_prefix(1);
  const auto [end, error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), condition.limit);
  if (error != std::errc() || end != rest.data() + rest.size() || !std::isfinite(condition.limit)) {
    return no_condition(text);
  }
  condition.limit /= 100;
  return condition;
}

Result<FailVerdict> check_fail_condition(const Comparison& comparison,
                                         const FailCondition& condition) {
  FailVerdict verdict;
  std::string there;
  bool found = condition.row == "*";
  for (const ComparedRow& row : comparison.rows) {
    there += (there.empty() ? "" : ", ") + row.key;
    if (condition.row != "*" && condition.row != row.key) continue;
    found = true;
    const MetricChange& metric = row.of(condition.metric);
    if (!metric.tested) {
      if (condition.row != "*") {
        verdict.unknown.push_back(fmt::format(
            "{}: too little on one side to tell ({} and {} {})", condition.text, row.before_count,
            row.after_count, kCompareRowsNames[static_cast<std::size_t>(comparison.rows_of)]));
      }
      continue;
    }
    const double bound = condition.above ? metric.change.low : metric.change.high;
    if (condition.above ? bound <= condition.limit : bound >= condition.limit) continue;
    verdict.failed.push_back(
        fmt::format("{}: {} of {} changed by {:+.1f}%, with {:.3g} % confidence by {} {:+.1f}%",
                    condition.text, kMetricNames[static_cast<std::size_t>(condition.metric)],
                    row.key, metric.change.change * 100, comparison.confidence * 100,
                    condition.above ? "at least" : "at most", bound * 100));
  }
  if (!found) {
    return fail(ErrorKind::kUsage, "--fail-if: there is no row '{}'; there are {}", condition.row,
                there);
  }
  return verdict;
}

}  // namespace trapline
