#include "merge/live/prometheus.h"

#include "backend_ftrace/base/saturated_sum.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/report/keyed_rows.h"

namespace trapline::live {
namespace {

// A label's value: what Prometheus escapes.
std::string label(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

void begin(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

}  // namespace

Result<void> PrometheusFile::add(const Frame& frame, const BatchOptions& options,
                                 const Engine& engine) {
  events_ += frame.events;
  lost_ = saturated_sum(lost_, frame.lost_events);
  gaps_ += frame.gaps;
  known_ = engine.pipeline().exits().known_states();
  lacks_entries_ = engine.pipeline().exits().lacks_entries();
  const bool durations = engine.model().durations();
  for (auto& [key, row] : rows_) row.p50_ns = row.p99_ns = row.max_ns = std::nullopt;
  for (const LiveRow& row : rows_of(frame, options.by, options.scope, SortBy::kTotal, engine)) {
    Row& into = bounded(rows_, row.key, kMostRows, std::string(ReportData::kFoldedKey));
    into.halts = (into.count == 0 || into.halts) && row.halts;
    into.count += row.total.count();
    for (std::size_t i = 0; i < kParts; ++i) into.parts[i] += row.parts[i];
    if (!durations) continue;
    into.p50_ns = row.total.percentile(500);
    into.p99_ns = row.total.percentile(990);
    into.max_ns = std::max(into.max_ns.value_or(0), row.total.max());
  }
  for (const VcpuRow& row : vcpus_of(frame, options.scope, engine)) {
    Vcpu& into = vcpus_[fmt::format("vm=\"{}\",vcpu=\"{}\",tid=\"{}\"", label(row.vm),
                                    row.vcpu == kNoVcpu ? "" : std::to_string(row.vcpu), row.tid)];
    into.exits += row.totals.exits;
    VcpuTotals totals = row.totals;
    for (std::size_t i = 0; i < kStates; ++i) into.states[i] += totals.of(static_cast<State>(i));
  }
  return replace_file(path_, text(options.by_text));
}

std::string PrometheusFile::text(const std::string& by) const {
  std::string out;
  begin(out, "trapline_events_total", "counter", "Kernel events that were read.");
  out += fmt::format("trapline_events_total {}\n", events_);
  begin(out, "trapline_lost_events_total", "counter",
        "Events that the kernel dropped, and counted.");
  out += fmt::format("trapline_lost_events_total {}\n", lost_);
  begin(out, "trapline_losses_total", "counter", "Times that events were lost.");
  out += fmt::format("trapline_losses_total {}\n", gaps_);
  begin(out, "trapline_vcpu_exits_total", "counter", "VM exits of a vCPU.");
  for (const auto& [labels, vcpu] : vcpus_) {
    if (lacks_entries_) break;  // how many there were is not known, which is not 0
    out += fmt::format("trapline_vcpu_exits_total{{{}}} {}\n", labels, vcpu.exits);
  }
  begin(out, "trapline_vcpu_seconds_total", "counter", "Where a vCPU's time went.");
  for (const auto& [labels, vcpu] : vcpus_) {
    for (std::size_t i = 0; i < kStates; ++i) {
      if (!told(known_, static_cast<State>(i), vcpu.states[i])) continue;
      out += fmt::format("trapline_vcpu_seconds_total{{{},state=\"{}\"}} {}\n", labels,
                         kStateKeys[i], seconds_text(vcpu.states[i]));
    }
  }
  begin(out, "trapline_exits_total", "counter", "VM exits, by what top's --by says.");
  for (const auto& [key, row] : rows_) {
    out += fmt::format("trapline_exits_total{{by=\"{}\",key=\"{}\"}} {}\n", label(by), label(key),
                       row.count);
  }
  begin(out, "trapline_exit_seconds_total", "counter", "Time in exits, by part.");
  for (const auto& [key, row] : rows_) {
    for (std::size_t i = 0; i < kParts; ++i) {
      if (!told(known_, i, row.parts, row.halts)) continue;
      out += fmt::format("trapline_exit_seconds_total{{by=\"{}\",key=\"{}\",part=\"{}\"}} {}\n",
                         label(by), label(key), kPartNames[i], seconds_text(row.parts[i]));
    }
  }
  begin(out, "trapline_exit_duration_seconds", "gauge", "Of the last interval.");
  for (const auto& [key, row] : rows_) {
    const std::pair<const char*, std::optional<std::uint64_t>> quantiles[] = {
        {"0.5", row.p50_ns}, {"0.99", row.p99_ns}, {"1", row.max_ns}};
    for (const auto& [quantile, ns] : quantiles) {
      if (!ns) continue;
      out +=
          fmt::format("trapline_exit_duration_seconds{{by=\"{}\",key=\"{}\",quantile=\"{}\"}} {}\n",
                      label(by), label(key), quantile, seconds_text(*ns));
    }
  }
  return out;
}

}  // namespace trapline::live
