#include "merge/pass/distinct_runs.h"

#include <iterator>
#include <map>
#include <string_view>

#include "merge/session/input.h"

namespace trapline {
namespace {

// Returns whether the clock distinguishes nanoseconds. With a coarser clock, exits of two hosts can
// have the same time by chance.
bool tells_nanoseconds(const SourceInfo& info) {
  constexpr std::string_view kFine[] = {"local",    "global", "perf", "mono",
                                        "mono_raw", "boot",   "tai",  "x86-tsc"};
  return std::ranges::find(kFine, info.clock) != std::end(kFine) && !info.resolution_ns;
}

}  // namespace

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
    // Recordings without a length, such as a log without times, may be equal by chance.
    if (read.first == read.last) continue;
    by_kind[source.info().kind].push_back(
        {source.info().path, read.first.ns(), read.last.ns(), read.events, 0});
  }
  for (const auto& [kind, runs] : by_kind)
    if (auto distinct = check_distinct(runs); !distinct) return distinct;
  return {};
}

SharedExits::SharedExits(const Timeline& timeline) : timeline_(timeline) {
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const SourceInfo& info = timeline.source(i).info();
    compared_.push_back(info.role == Role::kHostKernel && tells_nanoseconds(info));
  }
}

void SharedExits::compare(const Event& event) {
  if (found_ || !compared_[event.source]) return;
  LastExit* const last = threads_.get(event.thread, kMostThreads);
  if (last == nullptr) return;
  const auto& exit = std::get<KvmExit>(event.payload);
  if (event.at == last->at && event.source != last->source && event.cpu == last->cpu &&
      exit.reason == last->reason && exit.rip == last->rip) {
    if (!std::exchange(last->shared, true)) ++last->row;
    last->other = event.source;
    if (last->row == kRow) found_.emplace(last->source, event.source);
    return;
  }
  const unsigned row = last->shared ? last->row : 0;
  // A row is a series of exits that two recordings share. An exit of a third recording, whose
  // thread has the same number, does not end the row.
  if (row != 0 && event.source != last->source && event.source != last->other) return;
  *last = {event.at, exit.rip, event.cpu, exit.reason, event.source, last->other, false, row};
}

Result<void> SharedExits::check() const {
  if (!found_) return {};
  return given_twice(timeline_.source(found_->first).info().path,
                     timeline_.source(found_->second).info().path);
}

}  // namespace trapline
