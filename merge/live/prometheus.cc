#include "merge/live/prometheus.h"

#include <algorithm>
#include <ctime>
#include <span>

#include "backend_ftrace/base/saturated_sum.h"
#include "backend_ftrace/base/text.h"
#include "merge/report/grouping.h"

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

std::string vm_label(const std::string& id, const std::string& name) {
  return label("vm", name.empty() ? id : name);
}

std::string vm_label(const Naming& naming, ThreadId thread) {
  return vm_label(naming.vcpus.vm_id(thread), naming.vcpus.vm_name(thread));
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

std::string cpu_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return seconds_text(static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000 +
                      static_cast<std::uint64_t>(used.tv_nsec));
}

}  // namespace

void Figures::add(const Frame& frame, const Engine& engine) {
  const Scope scope{engine.options().which.vcpus};
  const Naming& naming = engine.naming();
  events_ += frame.events;
  lost_ = saturated_sum(lost_, frame.lost_events);
  gaps_ += frame.gaps;
  known_ = engine.pipeline().exits().known_states();
  lacks_entries_ = engine.pipeline().exits().lacks_entries();
  std::vector<Dimension> by = engine.options().by;
  std::erase_if(by, [](Dimension dimension) {
    return dimension == Dimension::kVm || dimension == Dimension::kVcpu;
  });
  by.insert(by.begin(), Dimension::kVcpu);
  const std::string nowhere = label("vm", ReportData::kFoldedKey);
  for (const LiveRow& row : rows_of(frame, by, scope, SortBy::kTotal, engine)) {
    const auto thread = ThreadId{static_cast<std::int32_t>(row.cell.words[kVcpuWord])};
    std::string labels;
    for (const Dimension dimension : std::span(by).subspan(1))
      labels += ',' + label(name_of(dimension), dimension_text(row.cell, dimension, engine));
    const std::string vcpu = vcpu_labels(naming, thread, naming.vcpus.number(thread));
    Exits& exits = bounded(exits_, vcpu + labels, kMostRows, nowhere);
    exits.halts = (exits.count == 0 || exits.halts) && row.halts;
    exits.count += row.total.count();
    for (std::size_t i = 0; i < kParts; ++i) exits.parts[i] += row.parts[i];
    if (engine.model().durations())
      bounded(durations_, vm_label(naming, thread) + labels, kMostRows, nowhere).merge(row.total);
  }
  for (const auto& [thread, totals] : frame.vcpus) {
    if (!scope.holds(thread, naming)) continue;
    const std::string labels =
        vcpu_labels(naming, thread, totals.vcpu) + ',' + label("tid", tid_text(thread));
    bounded(vcpus_, labels, kMostVcpus, nowhere).add(totals);
  }
  const VcpuFilter of_vm{{}, scope.vcpus.vm};
  for (const HostRoleTime& role : frame.host_cpu) {
    if (!of_vm.holds(role.vm, kNoVcpu)) continue;
    const std::string labels =
        vm_label(role.vm.id(), role.vm.given) + ',' + label("role", text_of(role.role));
    bounded(host_cpu_, labels, kMostVcpus, nowhere) += role.more_ns;
  }
  for (const auto& [of, total] : frame.faults) {
    const auto& [thread, cause] = of;
    if (!scope.holds(thread, naming)) continue;
    const std::string labels = vm_label(naming, thread) + ',' + label("cause", key_of(cause));
    bounded(faults_, labels, kMostVcpus, nowhere).add(total);
  }
  for (const WaitRow& row : frame.waits.preempted.rows)
    steal_[label("culprit", kind_of(row))] += row.ns;
}

std::string Figures::text() const {
  std::string out;
  const auto begin = [&out](std::string_view name, std::string_view help,
                            std::string_view type = "counter") {
    out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
  };
  const auto add = [&](std::string_view name, std::string_view help, const std::string& value) {
    begin(name, help);
    out += fmt::format("{} {}\n", name, value);
  };
  const auto series = [&](std::string_view name, std::string_view help, const auto& rows,
                          auto value) {
    begin(name, help);
    for (const auto& [labels, of] : rows)
      out += fmt::format("{}{{{}}} {}\n", name, labels, value(of));
  };
  add("trapline_events_total", "Kernel events that were read.", std::to_string(events_));
  add("trapline_lost_events_total", "Events that the kernel dropped, and counted.",
      std::to_string(lost_));
  add("trapline_losses_total", "Times that events were lost.", std::to_string(gaps_));
  add("trapline_process_cpu_seconds_total", "CPU time of trapline top itself.", cpu_seconds());
  // Without kvm_entry the number of exits is not known, so the series is left empty rather than 0.
  series("trapline_vcpu_exits_total", "VM exits of a vCPU.",
         lacks_entries_ ? decltype(vcpus_)() : vcpus_,
         [](const VcpuTotals& vcpu) { return vcpu.exits; });
  begin("trapline_vcpu_seconds_total", "Time of a vCPU, by its state.");
  for (auto [labels, vcpu] : vcpus_) {
    for (std::size_t i = 0; i < kStates; ++i)
      if (const auto ns = known_ns(known_, static_cast<State>(i), vcpu.of(static_cast<State>(i))))
        out += fmt::format("trapline_vcpu_seconds_total{{{},state=\"{}\"}} {}\n", labels,
                           kStateKeys[i], seconds_text(*ns));
  }
  series("trapline_host_cpu_seconds_total",
         "CPU time of the host that a VM's threads took, by role.", host_cpu_, seconds_text);
  series("trapline_guest_faults_total", "Page faults in a VM's memory, by cause.", faults_,
         [](const FaultTotal& faults) { return faults.count; });
  series("trapline_guest_fault_seconds_total", "Time of these exits.", faults_,
         [](const FaultTotal& faults) { return seconds_text(faults.ns); });
  series("trapline_steal_seconds_total",
         "Time that vCPUs waited inside exits for a CPU, by what had it.", steal_, seconds_text);
  series("trapline_exits_total", "VM exits that ended.", exits_,
         [](const Exits& exits) { return exits.count; });
  begin("trapline_exit_seconds_total", "Time in VM exits, by part.");
  for (const auto& [labels, exits] : exits_) {
    for (std::size_t i = 0; i < kParts; ++i)
      if (const auto ns = known_ns(known_, i, exits.parts, exits.halts))
        out += fmt::format("trapline_exit_seconds_total{{{},part=\"{}\"}} {}\n", labels,
                           kPartNames[i], seconds_text(*ns));
  }
  constexpr std::string_view kTimes = "trapline_exit_duration_seconds";
  begin(kTimes, "Times of VM exits.", "histogram");
  for (const auto& [labels, times] : durations_) {
    for (const std::uint64_t bound : kBounds)
      out += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", kTimes, labels, seconds_text(bound),
                         times.count_up_to(bound));
    out +=
        fmt::format("{0}_bucket{{{1},le=\"+Inf\"}} {3}\n{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n",
                    kTimes, labels, seconds_text(times.total()), times.count());
  }
  return out;
}

}  // namespace trapline::live
