#include "merge/report/compare_sink.h"

#include <algorithm>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/report/vcpu_names.h"

namespace trapline {

SpanClass CompareSink::selects() const {
  const SpanClass both = SpanClass::kExits | SpanClass::kLosses;
  return requests_ ? both | SpanClass::kRequests : both;
}

std::size_t CompareSink::row_of(const GroupKey& key) {
  if (last_ < rows_.size() && rows_[last_].key == key) return last_;
  const auto known = numbers_.find(key);
  if (known != numbers_.end()) return last_ = known->second;
  const std::size_t number = std::min(rows_.size(), kMostRows);
  if (number == rows_.size()) rows_.push_back({key, true});
  if (number < kMostRows) numbers_.emplace(key, number);
  return last_ = number;
}

// Time counts from the first event of the host's recordings.
void CompareSink::begin(const Pipeline& pipeline) {
  if (std::exchange(begun_, true)) return;
  Timestamp origin = pipeline.begin().value_or(Timestamp());
  for (std::size_t i = 0; i < timeline_.size(); ++i) {
    const SourceCounters& counters = timeline_.source(i).counters();
    if (timeline_.source(i).info().role != Role::kHostKernel || counters.events == 0) continue;
    origin = std::min(origin, counters.first);
  }
  bins_.begin_at(origin);
}

void CompareSink::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  begin(pipeline);
  const auto [last, is_first] = last_exit_.try_emplace(exit.thread, exit.end);
  if (!is_first) {
    bins_.add_guest(exit.end, elapsed(last->second, exit.start));
    last->second = exit.end;
  }
  if (requests_) return;
  const StackId stack = keys_.needs_stack() ? pipeline.stack_of(exit) : kNoStack;
  const std::size_t row = row_of(keys_.of(exit, stack, pipeline.stacks()));
  if (!is_halt(exit.reason)) rows_[row].halts = false;
  bins_.add(row, exit.end, exit.total(), exit.parts);
}

void CompareSink::request(const RequestSpan& request, const Pipeline& pipeline) {
  begin(pipeline);
  GroupKey key;
  key.words[0] = request.spec;
  const std::size_t row = row_of(key);
  rows_[row].halts = false;
  bins_.add(row, request.end, elapsed(request.start, request.end), {});
}

void CompareSink::lost(const Event&, const Lost&, const Pipeline&) { last_exit_.clear(); }

Recorded CompareSink::take(const Pipeline& pipeline) {
  bins_.finish();
  Recorded recorded;
  Timestamp end = pipeline.end();
  for (std::size_t i = 0; i < timeline_.size(); ++i) {
    const Source& source = timeline_.source(i);
    recorded.events += source.counters().events;
    recorded.lost += source.counters().lost_events;
    recorded.losses_uncounted += source.counters().gaps_uncounted;
    if (source.info().role != Role::kHostKernel || source.counters().events == 0) continue;
    end = std::max(end, source.counters().last);
    for (auto& [name, text] : source.facts()) recorded.facts.try_emplace(name, printable(text));
  }
  const SourceInfo& info = timeline_.source(0).info();
  recorded.path = info.path;
  recorded.clock = info.clock;
  recorded.cycles = info.cycles;
  recorded.model = pipeline.exits().model();
  recorded.exits = pipeline.exits().counters().exits;
  recorded.bin_ns = bins_.width();
  recorded.wall_ns = std::max<std::uint64_t>(1, elapsed(bins_.origin(), end));
  recorded.guest = bins_.guest();

  const std::vector<VcpuTotalsOf> all = pipeline.exits().vcpus();
  const std::vector<VcpuThread> threads = vcpu_threads(all, timeline_);
  recorded.vcpus = threads.size();
  const VcpuNames names(threads, find_vms(threads, pipeline.processes()));
  const ExitKeys::Namer namer{pipeline.names(), pipeline.stacks(), timeline_, names};
  for (std::size_t i = 0; i < rows_.size() && i < bins_.rows(); ++i) {
    const std::string key =
        i == kMostRows ? "[other]"
        : requests_    ? printable(pipeline.requests()
                                       ->specs()[static_cast<std::size_t>(rows_[i].key.words[0])]
                                       .name())
                       : keys_.text(rows_[i].key, namer);
    RecordedRow& row = recorded.rows.try_emplace(key, RecordedRow{true, {}}).first->second;
    row.halts = row.halts && rows_[i].halts;
    row.bins = row.bins.empty() ? bins_.take(i) : merged(row.bins, bins_.take(i));
  }
  return recorded;
}

}  // namespace trapline
