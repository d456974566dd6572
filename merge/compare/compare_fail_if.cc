#include "merge/compare/compare_fail_if.h"

#include <charconv>
#include <cmath>

#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

tl::unexpected<Error> no_condition(std::string_view text) {
  return fail(ErrorKind::kUsage,
              "--fail-if: '{}' is not a condition; write METRIC(ROW) > +N% or METRIC(ROW) < -N%, "
              "with a METRIC of {} and a ROW of --by, or *",
              text, fmt::join(kMetricNames, ", "));
}

// A row that a condition names.
struct Named {
  const FailCondition* condition;
  const ComparedRow* row;
  [[nodiscard]] const MetricChange& metric() const { return row->of(condition->metric); }
};

Result<std::vector<Named>> rows_named(const Comparison& comparison,
                                      const FailCondition& condition) {
  std::vector<Named> named;
  std::string there;
  for (const ComparedRow& row : comparison.rows) {
    there += (there.empty() ? "" : ", ") + row.key;
    if (condition.row == "*" || condition.row == row.key) named.push_back({&condition, &row});
  }
  if (!named.empty() || condition.row == "*") return named;
  return fail(ErrorKind::kUsage, "--fail-if: there is no row '{}'; there are {}", condition.row,
              there);
}

std::string change_text(const Named& named) {
  const double change = named.metric().change;
  return fmt::format(
      "{} of {} {}", kMetricNames[static_cast<std::size_t>(named.condition->metric)],
      named.row->key,
      std::isinf(change) ? "is new" : fmt::format("changed by {:+.1f}%", change * 100));
}

void judge(const Comparison& comparison, const Named& named, const Change& test,
           FailVerdict& verdict) {
  const FailCondition& condition = *named.condition;
  const double change = named.metric().change;
  const bool single = comparison.method == Method::kNone;
  if (single ? std::isnan(change) : !test.tested) {
    if (condition.row == "*") return;
    verdict.unknown.push_back(
        fmt::format("{}: too little on one side to tell ({} and {} {})", condition.text,
                    named.row->before_count, named.row->after_count,
                    kCompareRowsNames[static_cast<std::size_t>(comparison.options.rows)]));
    return;
  }
  const bool from_nothing = std::isinf(change);
  if (from_nothing && !single && !test.proven) return;
  const double bound = single ? change : condition.above ? test.low : test.high;
  if (condition.above ? bound <= condition.limit : bound >= condition.limit) return;
  verdict.failed.push_back(
      single ? fmt::format("{}: {} between these recordings, which says nothing of other runs",
                           condition.text, change_text(named))
      : from_nothing ? fmt::format("{}: {}, with {:.3g}% confidence", condition.text,
                                   change_text(named), comparison.options.confidence * 100)
                     : fmt::format("{}: {}, with {:.3g}% confidence by {} {:+.1f}%", condition.text,
                                   change_text(named), comparison.options.confidence * 100,
                                   condition.above ? "at least" : "at most", bound * 100));
}

}  // namespace

Result<FailCondition> parse_fail_condition(std::string_view text) {
  FailCondition condition;
  condition.text = std::string(trimmed(text));
  const std::string_view all = condition.text;
  const auto open = all.find('('), close = all.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return no_condition(text);
  const auto* const name = std::ranges::find(kMetricNames, trimmed(all.substr(0, open)));
  condition.metric = static_cast<Metric>(name - kMetricNames.begin());
  condition.row = std::string(trimmed(all.substr(open + 1, close - open - 1)));
  std::string_view rest = trimmed(all.substr(close + 1));
  if (name == kMetricNames.end() || condition.row.empty() || rest.size() < 3 ||
      rest.back() != '%' || (rest[0] != '>' && rest[0] != '<')) {
    return no_condition(text);
  }
  condition.above = rest[0] == '>';
  rest = trimmed(rest.substr(1, rest.size() - 2));
  if (!rest.empty() && rest[0] == '+') rest.remove_prefix(1);
  const auto [end, error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), condition.limit);
  if (error != std::errc() || end != rest.data() + rest.size() || !std::isfinite(condition.limit))
    return no_condition(text);
  condition.limit /= 100;
  return condition;
}

Result<FailVerdict> check_fail_conditions(const Comparison& comparison,
                                          const std::vector<FailCondition>& conditions) {
  std::vector<Named> all;
  for (const FailCondition& condition : conditions) {
    auto named = rows_named(comparison, condition);
    if (!named) return tl::unexpected(std::move(named).error());
    all.insert(all.end(), named->begin(), named->end());
  }
  // Uses only what the comparison tested; rows with too few exits are left out.
  std::vector<RunFigures> figures;
  for (const Named& named : all)
    figures.push_back(named.metric().test.tested ? *named.metric().runs
                                                 : RunFigures{{}, {}, Resolution(0, 0, 0)});
  const Tested tested = test_together(figures, comparison.method, comparison.options.confidence,
                                      comparison.options.seed);
  FailVerdict verdict;
  for (std::size_t i = 0; i < all.size(); ++i)
    judge(comparison, all[i], tested.changes[i], verdict);
  return verdict;
}

}  // namespace trapline
