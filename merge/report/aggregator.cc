#include "merge/report/aggregator.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "backend_ftrace/base/saturated_sum.h"
#include "backend_ftrace/base/text.h"
#include "merge/pass/first_look.h"
#include "merge/report/causes.h"
#include "merge/report/notes.h"
#include "merge/report/tables.h"

namespace trapline {

Aggregator::Aggregator(const Input& input, const ReportOptions& options)
    : input_(input),
      options_(options),
      keys_(options.by),
      needs_stack_(keys_.needs_stack()),
      needs_waits_(options.waits || options.steal || keys_.needs_waits()),
      rows_only_(!needs_stack_ && !needs_waits_ && !options.requests && !options.slower_than &&
                 !options.phases && !options.kernel),
      groups_(keys_.words()),
      subjects_(options.by),
      slow_exits_(options.slower_than, options.top) {
  if (options.phases) phases_.emplace(*options.phases);
}

SpanClass Aggregator::selects() const {
  // A report of requests alone needs no exits.
  const bool exits =
      !options_.requests || options_.slower_than || needs_waits_ || phases_ || options_.kernel;
  SpanClass selected = SpanClass::kLosses | (exits ? SpanClass::kExits : SpanClass::kNone);
  if (options_.requests) selected = selected | SpanClass::kRequests;
  if (options_.irq) selected = selected | SpanClass::kInterrupts;
  if (options_.halt || options_.halt_costs) selected = selected | SpanClass::kHalts;
  if (options_.calls) selected = selected | SpanClass::kCalls;
  if (needs_waits_) selected = selected | SpanClass::kWaits;
  if (options_.kernel || keys_.needs_kernel()) selected = selected | SpanClass::kKernelParts;
  if (phases_)
    selected = selected | SpanClass::kEvents | SpanClass::kAllEvents | SpanClass::kStateRuns;
  return selected;
}

void Aggregator::event(const Event& event, const Pipeline& pipeline) {
  if (phases_) phases_->event(event, pipeline);
}

void Aggregator::states(std::span<const StateRun> runs, const Pipeline& pipeline) {
  if (phases_) phases_->states(runs, pipeline);
}

void Aggregator::wait(const EndedWait& wait, const Pipeline&) {
  if (options_.steal) steal_.add(wait);
}

void Aggregator::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  if (rows_only_ && !pipeline.has_guest_records()) {
    const GroupKey& key = keys_.of(exit, kNoStack, pipeline.stacks(), {}, pipeline.kernel());
    return subjects_.add(groups_.add(key, exit), exit);
  }
  const bool slow = slow_exits_.wants(exit);
  const bool needs_stack = needs_stack_ || slow || pipeline.has_guest_records();
  const StackId stack = needs_stack ? pipeline.stack_of(exit) : kNoStack;
  if (slow) slow_exits_.add(exit, pipeline.stacks().innermost(stack));
  std::span<const WaitShare> waits;
  if (needs_waits_) waits = pipeline.waits()->shares();
  if (options_.waits) {
    waits_.add(waits);
    waits_.add(pipeline.waits()->halts());
  }
  if (!options_.requests)
    subjects_.add(
        groups_.add(keys_.of(exit, stack, pipeline.stacks(), waits, pipeline.kernel()), exit),
        exit);
  if (phases_) phases_->exit(exit, pipeline);
  if (options_.kernel) kernel_.add(exit, *pipeline.kernel());
}

void Aggregator::call(const FunctionCall& call, const Pipeline& pipeline) {
  groups_.add(keys_.of(call, pipeline.stacks()), call);
}

void Aggregator::request(const RequestSpan& request, const Pipeline&) { requests_.add(request); }

void Aggregator::delivered(const Delivered& delivered, const Pipeline&) {
  requests_.add(delivered);
}

void Aggregator::interrupt(const IrqSpan& interrupt, const Pipeline&) { irqs_.add(interrupt); }

void Aggregator::lost(const Event&, const Lost& loss, const Pipeline&) {
  if (!loss.on_purpose) lost_.add_gap(loss.count);
}

Report Aggregator::snapshot(const Naming& names) const {
  const Pipeline& pipeline = names.pipeline;
  Report report;
  report.model = pipeline.exits().model();
  report.told = pipeline.exits().known_states();
  report.lacks_entries = pipeline.exits().lacks_entries();
  report.by = options_.by_text;
  const RecordedInterval interval = recorded_interval(names.timeline, pipeline);
  report.start_ns = interval.begin.ns();
  report.end_ns = interval.end.ns();
  report.cycles = names.timeline.source(0).info().cycles;
  fill_sources(report, names.timeline);
  report_counters(report.counters, names);
  if (options_.calls && pipeline.stacks().records() != 0) report.rows_of = RowsOf::kCalls;
  fill_vcpus(report, names);
  report.is_window = pipeline.is_window();
  report.saw_halts = pipeline.exits().saw_halts();
  report.costs_at_least = costs_at_least(pipeline.exits());
  if (options_.requests) {
    requests_.report(report, pipeline);
  } else {
    report_groups(report, names);
  }
  fill_vmm_events(report, pipeline);
  slow_exits_.report(report, names);
  if (options_.irq) irqs_.report(report, *pipeline.interrupts());
  if (options_.halt) fill_halts(report, names);
  if (options_.halt_costs) report.halt_costs = halt_cost_rows(names);
  if (phases_) report.phases = phases_->report(pipeline, pipeline.end().ns());
  if (options_.kernel) report.kernel = kernel_.report(names, options_.top);
  if (needs_waits_) report_waits(report, names);
  if (options_.guest || report.rows_of == RowsOf::kCalls)
    fill_guest_functions(report, pipeline, options_.top);
  report.missing = input_.missing;
  report.notes = input_.notes;
  note_sources(names.timeline, report.notes);
  note_declarations(input_, names.names, report.notes);
  for (std::string& note : notes_of(report, input_.capabilities, names.vcpus.several_vms())) {
    report.notes.push_back(std::move(note));
  }
  if (needs_waits_) note_quotas(report, pipeline);
  return report;
}

void Aggregator::report_counters(ReportCounters& told, const Naming& names) const {
  const Timeline& timeline = names.timeline;
  const Pipeline& pipeline = names.pipeline;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const SourceCounters counters = timeline.source(i).counters();
    // Of a window the host's losses are those that lie in it.
    if (!pipeline.is_window() || timeline.source(i).info().role != Role::kHostKernel)
      told.add(counters);
    told.left_out_events = saturated_sum(told.left_out_events, counters.left_out_events);
    told.left_out_pieces += counters.left_out_pieces;
    told.damaged_events += counters.damaged_events;
  }
  if (pipeline.is_window()) told.add(lost_);
  told.exits = pipeline.exits().counters();
  told.calls = pipeline.stacks().counters();
  told.guest_records = pipeline.stacks().records();
  told.groups_folded = groups_.folded();
}

void Aggregator::report_groups(Report& report, const Naming& names) const {
  std::map<std::string, std::uint32_t> known;  // two numbers may have one name
  std::vector<std::uint32_t> row_of_group;
  for (const Groups::Group& group : groups_.groups()) {
    const auto [place, is_new] = known.try_emplace(keys_.text(group.key, names), known.size());
    if (is_new) report.rows.emplace_back().key = place->first;
    report.rows[place->second].merge(group.row);
    row_of_group.push_back(place->second);
  }
  const auto subjects = subjects_.of_rows(row_of_group, report.rows.size(), names);
  for (std::size_t row = 0; row < subjects.size() && report.durations(); ++row) {
    report.rows[row].largest = subjects[row].text;
    report.rows[row].largest_ns = subjects[row].ns;
    report.rows[row].largest_at_least = subjects[row].at_least;
  }
  std::ranges::sort(report.rows, {}, &GroupRow::key);
  sort_rows(report);
}

// --top is of both, exits and halts. What found no room among the groups is no row to leave out.
void Aggregator::sort_rows(Report& report) const {
  std::stable_sort(report.rows.begin(), report.rows.end(),
                   [&](const GroupRow& a, const GroupRow& b) {
                     return comes_before(a, b, options_.sort, report.durations());
                   });
  std::array<std::size_t, 2> kept{};
  std::vector<GroupRow> rows;
  for (GroupRow& row : report.rows) {
    if (!row.halts) report.total.merge(row);
    report.cost_ns += row.cost_ns();
    if (row.cost_ns() > report.costliest_ns) {
      report.costliest = row.key;
      report.costliest_ns = row.cost_ns();
    }
    std::size_t& so_far = kept[row.halts ? 1 : 0];
    if (options_.top == 0 || so_far < options_.top) {
      ++so_far;
      rows.push_back(std::move(row));
      continue;
    }
    ++report.rows_left_out;
    if (row.halts) ++report.halts_left_out;
    (row.halts ? report.left_out_halts : report.left_out).merge(row);
  }
  report.rows = std::move(rows);
  if (groups_.other().total.count() == 0) return;
  report.total.merge(groups_.other());
  report.cost_ns += groups_.other().cost_ns();
  const auto place = report.rows.begin() + static_cast<std::ptrdiff_t>(kept[0]);
  report.rows.insert(place, groups_.other())->key = Report::kFoldedKey;
}

void Aggregator::report_waits(Report& report, const Naming& names) const {
  if (options_.waits) {
    report.waits = waits_.report(names);
    report.waits->preempted.keep(options_.top);
    report.waits->blocked.keep(options_.top);
    report.waits->halted.keep(options_.top);
  }
  if (options_.steal) {
    report.steal = steal_.rows(names);
    for (StealRow& row : *report.steal) row.by.keep(options_.top);
  }
  report.wait_counters = names.pipeline.waits()->counters();
}

// Once each, where a vCPU is in such a cgroup.
void Aggregator::note_quotas(Report& report, const Pipeline& pipeline) {
  std::set<const CpuQuota*> told;
  for (const VcpuRow& row : report.vcpus) {
    for (const CpuQuota* quota : pipeline.processes().quotas().of(ThreadId{row.tid})) {
      if (told.insert(quota).second) report.notes.push_back(quota_sentence(*quota));
    }
  }
}

}  // namespace trapline
