#include "merge/report/run.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/pass/first_look.h"
#include "merge/report/causes.h"
#include "merge/report/notes.h"
#include "merge/report/vcpus.h"

namespace trapline {

namespace {

void fill_vmm_events(ReportData& report, const Pipeline& pipeline) {
  const auto& counts = pipeline.exits().vmm_events();
  for (NameId name = 1; name < counts.size(); ++name) {
    if (counts[name].count != 0)
      report.vmm_events.push_back({printable(pipeline.names()[name]), counts[name]});
  }
  std::sort(report.vmm_events.begin(), report.vmm_events.end(),
            [](const VmmEventRow& a, const VmmEventRow& b) {
              return std::tie(b.count.count, a.name) < std::tie(a.count.count, b.name);
            });
}

}  // namespace

Aggregator::Aggregator(const Input& input, const ReportOptions& options,
                       std::vector<std::unique_ptr<TableSink>> tables)
    : input_(input),
      options_(options),
      keys_(options.by),
      needs_stack_(keys_.needs_stack()),
      needs_waits_(keys_.needs_waits()),
      groups_(keys_.words(), kMostGroups),
      subjects_(options.by),
      tables_(std::move(tables)) {}

std::vector<SpanSink*> Aggregator::sinks() {
  std::vector<SpanSink*> sinks = {this};
  for (const auto& table : tables_) sinks.push_back(table.get());
  return sinks;
}

SpanClass Aggregator::selects() const {
  // A report of requests needs no exits.
  SpanClass selected = options_.requests ? SpanClass::kRequests : SpanClass::kExits;
  if (options_.calls) selected = selected | SpanClass::kCalls;
  if (needs_waits_) selected = selected | SpanClass::kWaits;
  if (keys_.needs_kernel()) selected = selected | SpanClass::kKernelParts;
  return selected;
}

void Aggregator::unended(const UnendedExit& exit, const Pipeline& pipeline) {
  const bool needs_stack = needs_stack_ || pipeline.has_guest_records();
  const StackId stack = needs_stack ? pipeline.stack_of(exit.span) : kNoStack;
  groups_[groups_.place_of(keys_.of(exit.span, stack, pipeline.stacks()))].add(exit.span);
  open_.add(exit);
}

void Aggregator::call(const FunctionCall& call, const Pipeline& pipeline) {
  groups_[groups_.place_of(keys_.of(call, pipeline.stacks()))].add(call);
}

namespace {

ReportCounters counters_of(const Naming& names) {
  const Timeline& timeline = names.timeline;
  const Pipeline& pipeline = names.pipeline;
  ReportCounters sum;
  sum.add(losses_of(timeline, pipeline));
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const SourceCounters counters = timeline.source(i).counters();
    sum.left_out_events = saturated_sum(sum.left_out_events, counters.left_out_events);
    sum.left_out_pieces += counters.left_out_pieces;
    sum.damaged_events += counters.damaged_events;
    sum.damaged_pages += counters.damaged_pages;
    sum.unread_events += counters.unread_events;
  }
  sum.exits = pipeline.exits().counters();
  sum.calls = pipeline.stacks().counters();
  sum.guest_records = pipeline.stacks().records();
  return sum;
}

}  // namespace

ReportData data_of(const Naming& names) {
  const Pipeline& pipeline = names.pipeline;
  ReportData data;
  data.model = pipeline.exits().model();
  data.shown = pipeline.exits().known_states();
  data.lacks_entries = pipeline.exits().lacks_entries();
  data.switches_from = pipeline.exits().switches_from();
  data.lacks_switches = pipeline.exits().lacks_switches();
  data.waits_in_halts = pipeline.exits().saw_waits_in_halts();
  const RecordedInterval interval = recorded_interval(names.timeline, pipeline);
  data.start_ns = interval.begin.ns();
  data.end_ns = interval.end.ns();
  data.cycles = names.timeline.source(0).info().cycles;
  data.sources = source_rows(names.timeline);
  data.counters = counters_of(names);
  data.is_window = pipeline.is_window();
  data.saw_nested = pipeline.exits().saw_nested();
  data.saw_halts = pipeline.exits().saw_halts();
  data.costs_at_least = costs_at_least(names);
  if (const HostRuns* runs = pipeline.host_runs()) data.longest_handler = runs->longest_handler();
  return data;
}

ReportData Aggregator::snapshot(const Naming& names) const {
  const Pipeline& pipeline = names.pipeline;
  ReportData report = data_of(names);
  report.counters.groups_folded = groups_.other().count();
  report.open = open_.sentences(names);
  report.isa = isa_;
  report.by = options_.by_text;
  report.top = options_.top;
  report.page = options_.page;
  if (options_.calls && pipeline.stacks().records() != 0) report.rows_of = RowsOf::kCalls;
  fill_vcpus(report, names);
  for (const VcpuRow& row : report.vcpus)
    if (names.vmm(row.thread) != "QEMU") report.vmm = names.vmm(row.thread);
  if (options_.requests) {
    requests_.report(report, pipeline);
  } else {
    report_groups(report, names);
  }
  fill_vmm_events(report, pipeline);
  for (const auto& [option, value] : options_.tables) report.tables_asked.insert(option);
  for (const auto& table : tables_) table->fill(report, names);
  if (needs_waits_) report.wait_counters = pipeline.waits()->counters();
  report.missing = input_.missing;
  if (const auto status = names.timeline.status(); !status)
    report.missing.push_back(status.error().message);
  report.notes = input_.notes;
  note_sources(names.timeline, report.notes);
  note_declarations(input_, names.names, report.notes);
  note_unseen_cpus(names.pipeline, report.notes);
  for (std::string& note : notes_of(report, input_.capabilities, names.vcpus.several_vms()))
    report.notes.push_back(std::move(note));
  report.not_recorded = not_recorded_text(report);
  if (report.wait_counters) note_quotas(report, pipeline);
  for (const auto& sink : tables_) {
    std::vector<Table> tables = sink->tables(report, names);
    std::ranges::move(tables, std::back_inserter(report.tables));
  }
  return report;
}

void Aggregator::report_groups(ReportData& report, const Naming& names) const {
  std::map<std::string, std::uint32_t> known;  // two numbers may have one name
  std::vector<std::uint32_t> row_of_group;
  for (const ExitGroup& group : groups_.rows()) {
    const auto [place, is_new] = known.try_emplace(keys_.text(group.key, names), known.size());
    if (is_new) report.rows.emplace_back().key = place->first;
    report.rows[place->second].merge(group);
    row_of_group.push_back(place->second);
  }
  if (report.durations()) subjects_.fill(report.rows, row_of_group, names);
  std::ranges::sort(report.rows, {}, &GroupRow::key);
  sort_rows(report);
}

// Sorts the rows. --top applies to exits and to halts, each; the row "[other]" always stays.
void Aggregator::sort_rows(ReportData& report) const {
  // Calls have no cost: their share is that of their own time.
  const bool calls = report.rows_of == RowsOf::kCalls && options_.sort == SortBy::kShare;
  std::stable_sort(
      report.rows.begin(), report.rows.end(),
      [&, sort = calls ? SortBy::kTotal : options_.sort](const auto& a, const auto& b) {
        return comes_before(a, b, sort, report.durations());
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
  if (groups_.other().count() == 0) return;
  report.total.merge(groups_.other());
  report.cost_ns += groups_.other().cost_ns();
  const auto place = report.rows.begin() + static_cast<std::ptrdiff_t>(kept[0]);
  report.rows.insert(place, {groups_.other(), std::string(ReportData::kFoldedKey)});
}

// Adds a note for each CPU quota that throttled a cgroup of the vCPUs.
void Aggregator::note_quotas(ReportData& report, const Pipeline& pipeline) {
  std::set<const CpuQuota*> seen;
  for (const VcpuRow& row : report.vcpus) {
    for (const CpuQuota* quota : pipeline.processes().quotas.of(row.thread))
      if (seen.insert(quota).second) report.notes.push_back(quota_sentence(*quota));
  }
}

namespace {

// Returns whether events in trace_marker alone are enough for the report.
bool counts_markers(const ReportOptions& options) {
  return options.requests ||
         std::find(options.by.begin(), options.by.end(), Dimension::kVmmEvent) != options.by.end();
}

// Returns an Error if the options of a report of calls need exits.
Result<void> check_calls(const ReportOptions& options, const ExitFilter& asked_for) {
  const std::string exits = asked_for.text();
  std::vector<std::string_view> names;
  if (!exits.empty()) names.push_back(exits);
  if (options.page) names.push_back("--format html");
  for (const TableKind& kind : table_kinds())
    if (kind.of_exits && options.asks(kind.option)) names.push_back(kind.option);
  if (!names.empty()) {
    return fail(ErrorKind::kUsage,
                "{}: shows VM exits, and this recording has none; its calls of guest functions are "
                "reported with --by, as text, JSON or CSV",
                names.front());
  }
  return check_dimensions_of_calls(options.by);
}

// Checks after the pass whether there is something to report.
Result<void> check_found(const PassEnd& pass, const ReportOptions& options) {
  if (!pass.status() || has_exits(pass.input().capabilities)) return {};
  if (options.calls && pass.pipeline().stacks().records() != 0)
    return check_calls(options, pass.selection().exits);
  if (counts_markers(options) && pass.input().capabilities.markers) return {};
  return pass.check_exits();
}

}  // namespace

ReportOptions options_for(const ReportOptions& requested, const Input& input) {
  ReportOptions options = requested;
  options.calls = !has_exits(input.capabilities) && !options.requests;
  options.switches = has_exits(input.capabilities) && input.capabilities.sched_switch;
  if (options.calls && options.by_default) {
    options.by = {Dimension::kFunction};
    options.by_text = "function";
  }
  return options;
}

Result<PassEnd> read_report(Pass pass, const ReportOptions& options, std::vector<SpanSink*> sinks,
                            const Progress& progress) {
  auto end = std::move(pass).run(std::move(sinks), progress);
  auto found = end ? check_found(*end, options) : Result<void>();
  if (end && found) found = end->check_names();
  if (!found) return tl::unexpected(std::move(found).error());
  return end;
}

ReportData report_of(const PassEnd& pass, const Aggregator& aggregator) {
  ReportData report = aggregator.snapshot(pass.naming());
  report.vcpu_filter = pass.selection().vcpus;
  report.exit_filter = pass.selection().exits;
  if (const ExitMatcher* matcher = pass.matcher()) {
    report.exits_in_rows = matcher->held();
    report.all_exits = matcher->exits();
    report.all_cost_ns = matcher->cost_ns();
    report.reasons_taken = matcher->reasons();
  }
  return report;
}

Result<ReportRun> run_report(const PassOptions& what, const ReportOptions& requested,
                             const Progress& progress) {
  auto pass = Pass::open(what, progress);
  if (!pass) return tl::unexpected(std::move(pass).error());
  const ReportOptions options = options_for(requested, pass->input());
  auto tables = make_tables(options);
  if (!tables) return tl::unexpected(std::move(tables).error());
  Aggregator aggregator(pass->input(), options, std::move(*tables));
  const auto end = read_report(std::move(*pass), options, aggregator.sinks(), progress);
  if (!end) return tl::unexpected(end.error());
  return ReportRun{report_of(*end, aggregator), {}, end->status()};
}

}  // namespace trapline
