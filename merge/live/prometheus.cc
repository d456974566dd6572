#include "merge/live/prometheus.h"

#include <sys/resource.h>

#include <algorithm>

#include "backend_ftrace/base/saturated_sum.h"
#include "backend_ftrace/base/text.h"
#include "merge/report/keyed_rows.h"

namespace trapline::live {
namespace {

// Returns a label with its value, escaped for Prometheus.
std::string label(std::string_view name, std::string_view value) {
  std::string out(name);
  std::ranges::replace(out, '-', '_');
  out += "=\"";
  for (const char c : printable(value)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string vm_label(const Naming& naming, ThreadId thread) {
  const std::string name = naming.vcpus.vm_name(thread);
  return label("vm", name.empty() ? naming.vcpus.vm_id(thread) : name);
}

std::string vcpu_labels(const Naming& naming, ThreadId thread, std::int32_t vcpu) {
  return vm_label(naming, thread) + ',' +
         label("vcpu", vcpu == kNoVcpu ? "" : std::to_string(vcpu));
}

std::string_view kind_of(const WaitRow& row) {
  if (row.kind == CulpritKind::kUnknown) return "unknown";
  if (row.kind == CulpritKind::kInterrupt || row.kind == CulpritKind::kSoftirq) return "interrupt";
  if (row.tid < 0) return "idle";
  return row.vm.empty() ? "thread" : "vm";
}

void begin(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void add_value(std::string& out, std::string_view name, std::string_view type,
               std::string_view help, std::string_view value) {
  begin(out, name, type, help);
  out += fmt::format("{} {}\n", name, value);
}

std::string cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto ns = [](const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_usec) * 1'000;
  };
  return seconds_text(ns(used.ru_utime) + ns(used.ru_stime));
}

}  // namespace

void Figures::add(const Frame& frame, const BatchOptions& options, const Engine& engine) {
  const std::string other(ReportData::kFoldedKey);
  const Naming& naming = engine.naming();
  events_ += frame.events;
  lost_ = saturated_sum(lost_, frame.lost_events);
  gaps_ += frame.gaps;
  known_ = engine.pipeline().exits().known_states();
  lacks_entries_ = engine.pipeline().exits().lacks_entries();
  std::vector<Dimension> by = options.by;
  std::erase_if(by, [](Dimension dimension) {
    return dimension == Dimension::kVm || dimension == Dimension::kVcpu;
  });
  const std::vector<Dimension> named = by;
  by.insert(by.begin(), Dimension::kVcpu);
  const std::string nowhere = label("vm", other);
  for (const LiveRow& row : rows_of(frame, by, options.scope, SortBy::kTotal, engine)) {
    const auto thread = ThreadId{static_cast<std::int32_t>(row.cell.words[kVcpuWord])};
    std::string labels;
    for (const Dimension dimension : named)
      labels += ',' + label(name_of(dimension), dimension_text(row.cell, dimension, engine));
    const std::string vcpu = vcpu_labels(naming, thread, naming.vcpus.number(thread));
    Exits& exits = bounded(exits_, vcpu + labels, kMostRows, nowhere);
    exits.halts = (exits.count == 0 || exits.halts) && row.halts;
    exits.count += row.total.count();
    for (std::size_t i = 0; i < kParts; ++i) exits.parts[i] += row.parts[i];
    if (!engine.model().durations()) continue;
    Durations& durations =
        bounded(durations_, vm_label(naming, thread) + labels, kMostRows, nowhere);
    durations.count += row.total.count();
    durations.total += row.total.total();
    for (std::size_t i = 0; i < kBounds.size(); ++i)
      durations.at_most[i] += row.total.count_up_to(kBounds[i]);
  }
  for (const VcpuRow& row : vcpus_of(frame, options.scope, engine)) {
    const std::string labels = vcpu_labels(naming, ThreadId{row.tid}, row.vcpu) + ',' +
                               label("tid", std::to_string(row.tid));
    Vcpu& into = bounded(vcpus_, labels, kMostVcpus, nowhere);
    into.exits += row.totals.exits;
    VcpuTotals totals = row.totals;
    for (std::size_t i = 0; i < kStates; ++i) into.states[i] += totals.of(static_cast<State>(i));
  }
  for (const WaitRow& row : frame.waits.preempted.rows) steal_[std::string(kind_of(row))] += row.ns;
}

std::string Figures::text() const {
  std::string out;
  add_value(out, "trapline_events_total", "counter", "Kernel events that were read.",
            std::to_string(events_));
  add_value(out, "trapline_lost_events_total", "counter",
            "Events that the kernel dropped, and counted.", std::to_string(lost_));
  add_value(out, "trapline_losses_total", "counter", "Times that events were lost.",
            std::to_string(gaps_));
  add_value(out, "trapline_process_cpu_seconds_total", "counter",
            "CPU time of trapline top itself.", cpu_seconds());
  begin(out, "trapline_vcpu_exits_total", "counter", "VM exits of a vCPU.");
  for (const auto& [labels, vcpu] : vcpus_) {
    if (lacks_entries_) break;  // their number was not known, which is not 0
    out += fmt::format("trapline_vcpu_exits_total{{{}}} {}\n", labels, vcpu.exits);
  }
  begin(out, "trapline_vcpu_seconds_total", "counter", "Time of a vCPU, by its state.");
  for (const auto& [labels, vcpu] : vcpus_) {
    for (std::size_t i = 0; i < kStates; ++i) {
      if (!told(known_, static_cast<State>(i), vcpu.states[i])) continue;
      out += fmt::format("trapline_vcpu_seconds_total{{{},state=\"{}\"}} {}\n", labels,
                         kStateKeys[i], seconds_text(vcpu.states[i]));
    }
  }
  begin(out, "trapline_steal_seconds_total", "counter",
        "Time that vCPUs waited inside exits for a CPU, by what had it.");
  for (const auto& [kind, ns] : steal_)
    out +=
        fmt::format("trapline_steal_seconds_total{{culprit=\"{}\"}} {}\n", kind, seconds_text(ns));
  begin(out, "trapline_exits_total", "counter", "VM exits that ended.");
  for (const auto& [labels, exits] : exits_)
    out += fmt::format("trapline_exits_total{{{}}} {}\n", labels, exits.count);
  begin(out, "trapline_exit_seconds_total", "counter", "Time in VM exits, by part.");
  for (const auto& [labels, exits] : exits_) {
    for (std::size_t i = 0; i < kParts; ++i) {
      if (!told(known_, i, exits.parts, exits.halts)) continue;
      out += fmt::format("trapline_exit_seconds_total{{{},part=\"{}\"}} {}\n", labels,
                         kPartNames[i], seconds_text(exits.parts[i]));
    }
  }
  begin(out, "trapline_exit_duration_seconds", "histogram", "Times of VM exits.");
  for (const auto& [labels, durations] : durations_) {
    for (std::size_t i = 0; i <= kBounds.size(); ++i) {
      const bool is_last = i == kBounds.size();
      out += fmt::format("trapline_exit_duration_seconds_bucket{{{},le=\"{}\"}} {}\n", labels,
                         is_last ? "+Inf" : seconds_text(kBounds[i]),
                         is_last ? durations.count : durations.at_most[i]);
    }
    out += fmt::format(
        "trapline_exit_duration_seconds_sum{{{0}}} "
        "{1}\ntrapline_exit_duration_seconds_count{{{0}}} "
        "{2}\n",
        labels, seconds_text(durations.total), durations.count);
  }
  return out;
}

}  // namespace trapline::live
