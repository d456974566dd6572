#include "merge/report/options.h"

#include <utility>

#include "backend_ftrace/base/duration.h"

namespace trapline {

Result<TimeSpec> parse_time_spec(std::string_view option, std::string_view text) {
  const bool relative = !text.empty() && text.front() == '+';
  const auto ns = parse_duration(option, relative ? text.substr(1) : text, BareNumber::kSeconds);
  if (!ns) {
    return fail(
        ErrorKind::kUsage,
        "{}: '{}' is not a time; use seconds of the recording's clock (12.5), or a time from "
        "its start (+500ms)",
        option, text);
  }
  return TimeSpec{*ns, relative};
}

Result<SortBy> parse_sort(std::string_view text) {
  constexpr std::pair<std::string_view, SortBy> kSorts[] = {
      {"total", SortBy::kTotal}, {"count", SortBy::kCount}, {"mean", SortBy::kMean},
      {"max", SortBy::kMax},     {"p99", SortBy::kP99},     {"key", SortBy::kKey}};
  for (const auto& [name, sort] : kSorts) {
    if (name == text) return sort;
  }
  return fail(ErrorKind::kUsage,
              "--sort: unknown '{}'; there are total, count, mean, max, p99, key", text);
}

}  // namespace trapline
