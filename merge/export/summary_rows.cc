#include "merge/export/summary_rows.h"

#include <algorithm>
#include <utility>

namespace trapline {
namespace {

const std::vector<std::string_view> kColumns = {
    "rows_version", "host",   "session",  "vm",        "start_ns", "window_ns",    "reason",
    "device",       "count",  "total_ns", "kernel_ns", "user_ns",  "preempted_ns", "blocked_ns",
    "halted_ns",    "min_ns", "max_ns",   "values",    "counts",   "wall_ns",      "boot"};

}  // namespace

SummaryExporter::SummaryExporter(const ExportContext& context, const ExportOptions& options,
                                 RowForm form, OutputFile output)
    : context_(context),
      window_ns_(options.window_ns),
      writer_(form, std::move(output), kColumns),
      labels_(context_, options, writer_) {}

void SummaryExporter::Group::add(const ExitSpan& exit) {
  const auto bucketed = [](std::uint64_t value) {
    return Histogram::middle_of(Histogram::bucket_of(value));
  };
  const std::uint64_t value = exit.total();
  halts = (count == 0 || halts) && exit.halt;
  if (++count == Histogram::kExact + 1) {
    std::map<std::uint64_t, std::uint64_t> buckets;
    for (const auto& [exact, times] : values) buckets[bucketed(exact)] += times;
    values = std::move(buckets);
  }
  ++values[count > Histogram::kExact ? bucketed(value) : value];
  total += value;
  min = std::min(min, value);
  max = std::max(max, value);
  for (std::size_t i = 0; i < kParts; ++i) parts[i] += exit.parts[i];
}

void SummaryExporter::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  // Exits come in the order of their ends: a window is complete when a later one begins.
  const std::uint64_t window = exit.end.ns() / window_ns_;
  if (window != window_) write_window(pipeline);
  window_ = window;
  // Of several recordings the same reason is one group.
  Key key{pipeline.processes().of(exit.thread, {}), labels_.reason(exit), exit.device};
  if (groups_.size() >= kMostGroups && !groups_.contains(key)) key = {ThreadId{}, {}, kNoName};
  groups_[key].add(exit);
}

void SummaryExporter::write_window(const Pipeline& pipeline) {
  for (const auto& [key, group] : groups_) write_row(key, group, pipeline);
  groups_.clear();
}

void SummaryExporter::write_row(const Key& key, const Group& group, const Pipeline& pipeline) {
  const auto& [process, reason, device] = key;
  writer_.cells(labels_.cells(), std::size(kLabelColumns));
  writer_.thread(process);
  writer_.number(window_ * window_ns_);
  writer_.number(window_ns_);
  writer_.text(reason.empty() ? writer_.nothing_text() : reason);
  const std::string name = device == kNoName ? std::string(writer_.nothing_text())
                                             : writer_.quote(pipeline.names()[device]);
  writer_.text(name);
  writer_.number(group.count);
  const ExitModel& model = pipeline.exits().model();
  const States known = model.known_states();
  const auto duration = [&](std::uint64_t ns) {
    model.durations() ? writer_.number(ns) : writer_.nothing();
  };
  duration(group.total);
  for (std::size_t i = 0; i < kParts; ++i) writer_.number(told(known, i, group.parts, group.halts));
  duration(group.min);
  duration(group.max);
  std::string values, counts;
  for (const auto& [value, count] : group.values) {
    if (!model.durations()) break;
    const std::string_view comma = values.empty() ? "" : ",";
    values += std::string(comma) + std::to_string(value);
    counts += std::string(comma) + std::to_string(count);
  }
  for (const std::string& list : {values, counts}) writer_.text(writer_.list(list));
  writer_.number(context_.wall_ns(Timestamp(window_ * window_ns_)));
  writer_.text(labels_.boot());
  writer_.end();
}

Result<void> SummaryExporter::finish(const Naming& names) {
  write_window(names.pipeline);
  return writer_.finish();
}

}  // namespace trapline
