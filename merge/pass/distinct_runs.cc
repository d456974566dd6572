#include "merge/pass/distinct_runs.h"

#include <map>
#include <vector>

#include "merge/session/input.h"

namespace trapline {

Result<void> check_distinct(std::span<const RunGiven> runs) {
  for (auto a = runs.begin(); a != runs.end(); ++a) {
    for (auto b = runs.begin(); b != a; ++b) {
      if (a->begin_ns != b->begin_ns || a->end_ns != b->end_ns || a->events != b->events ||
          a->exits != b->exits) {
        continue;
      }
      return given_twice(b->path, a->path);
    }
  }
  return {};
}

Result<void> check_distinct(const Timeline& timeline) {
  std::map<std::string, std::vector<RunGiven>> by_kind;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const Source& source = timeline.source(i);
    const SourceCounters read = source.counters();
    // Without a length, as a log without times is, two may be alike by chance.
    if (read.first == read.last) continue;
    by_kind[source.info().kind].push_back(
        {source.info().path, read.first.ns(), read.last.ns(), read.events, 0});
  }
  for (const auto& [kind, runs] : by_kind)
    if (auto distinct = check_distinct(runs); !distinct) return distinct;
  return {};
}

}  // namespace trapline
