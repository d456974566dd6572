#include "merge/report/analysis.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/report/notes.h"

namespace trapline {
namespace {

// What rows are sorted by, the largest first.
std::uint64_t measure(const GroupRow& row, SortBy sort, bool durations) {
  switch (sort) {
    case SortBy::kCount:
      return row.total.count();
    case SortBy::kMean:
      return row.total.mean();
    case SortBy::kMax:
      return row.total.max();
    case SortBy::kP99:
      return row.total.percentile(990);
    case SortBy::kKey:
      return 0;
    default:
      return durations ? row.total.total() : row.total.count();
  }
}

}  // namespace

Analysis::Analysis(const Timeline& timeline, const Input& input, const ReportOptions& options)
    : timeline_(timeline),
      input_(input),
      options_(options),
      reader_(names_, input.declared),
      model_(choose_exit_model(input.traits)),
      tracker_(model_, reader_),
      processes_(input.processes),
      stacks_(names_),
      to_(std::numeric_limits<std::uint64_t>::max()),
      keys_(options.by, names_, stacks_),
      groups_(keys_.words()),
      slow_exits_(options.slower_than),
      requests_(options.request_specs, names_, input.declared) {
  for (std::size_t i = 0; i < timeline.size(); ++i) has_guest_ |= !timeline.source(i).info().host;
  needs_stack_ = has_guest_ || keys_.has(Dimension::kFunction) || keys_.has(Dimension::kStack);
}

bool Analysis::on(const Event& event) {
  const bool is_event = !std::holds_alternative<Lost>(event.payload);
  if (!first_) [[unlikely]] {
    if (is_event) {
      first_ = event.at;
      if (options_.from) from_ = options_.from->resolve(event.at);
      if (options_.to) to_ = options_.to->resolve(event.at);
    } else if (options_.from) {
      return true;  // a hole before the first event
    }
  }
  if (event.at > to_) [[unlikely]]
    return false;
  if (event.payload.index() == 0) [[likely]] {  // Other: of no correlator's interest
    if (event.at >= from_) {
      if (!start_) start_ = event.at;
      end_ = std::max(end_, event.at);
    }
    return true;
  }
  if (has_guest_ && on_guest(event)) return true;
  if (const auto* made = std::get_if<NewThread>(&event.payload)) processes_.on(event, *made);
  if (event.at < from_) [[unlikely]]
    return true;
  if (is_event) {
    if (!start_) start_ = event.at;
    end_ = std::max(end_, event.at);
  }
  if (const ExitSpan* span = tracker_.on(event)) take(*span);
  if (options_.requests) {
    requests_.on(event, processes_.of(event.thread, {}), tracker_.last_qemu_event());
  }
  if (options_.irq) {
    if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) worked_for_.on(*sched);
    irqs_.on(event, worked_for_.process(event.thread, processes_));
  }
  if (options_.halt) halts_.on(event);
  return true;
}

// Keeps the guest's stacks; true for events that are not the host's: holes in other sources hide
// none of its events.
bool Analysis::on_guest(const Event& event) {
  if (event.at >= from_) stacks_.on(event);
  return std::holds_alternative<GuestCall>(event.payload) ||
         (std::holds_alternative<Lost>(event.payload) && !timeline_.source_of(event).info().host);
}

// The guest's stack when the exit came, with the function of its rip innermost where that is known:
// a record's stamp has the error of its clock's relation, the rip has none.
StackId Analysis::stack_of(const ExitSpan& span) {
  StackId stack = stacks_.stack_of(span.thread);
  const std::uint32_t symbol = input_.symbols.index_of(span.rip);
  if (symbol == SymbolTable::kNone) return stack;
  if (symbol >= symbol_names_.size()) symbol_names_.resize(input_.symbols.size(), kNoName);
  NameId& name = symbol_names_[symbol];
  if (name == kNoName) name = names_.id(input_.symbols[symbol].name);
  return stacks_.with_innermost(stack, name);
}

void Analysis::take(const ExitSpan& span) {
  if (!counts(span.thread)) return;
  const bool slow = slow_exits_.wants(span);
  const StackId stack = needs_stack_ || slow ? stack_of(span) : kNoStack;
  if (slow) slow_exits_.add(span, stacks_.innermost(stack));
  if (has_guest_) stacks_.on_span(span, stack);
  groups_.add(keys_.of(span, stack), span);
}

Report Analysis::finish() {
  while (const ExitSpan* span = tracker_.finish()) take(*span);
  Report report;
  report.model = model_;
  report.by = options_.by_text;
  find_interval(report);
  report.cycles = timeline_.source(0).info().cycles;
  report_sources(report);
  report_vcpus(report);
  if (options_.requests) {
    requests_.report(report);
  } else {
    report_groups(report);
  }
  report_qemu_events(report);
  slow_exits_.report(report, timeline_, names_, vcpus_);
  if (options_.irq) irqs_.report(report);
  if (options_.halt) report_halts(report);
  if (options_.guest) report_guest(report);
  report.notes = input_.notes;
  for (std::string& note : notes_of(report, input_.traits, vcpus_.several_vms())) {
    report.notes.push_back(std::move(note));
  }
  return report;
}

// The whole recordings', where all was looked at: their sources leave out what nobody needs.
void Analysis::find_interval(Report& report) const {
  Timestamp start = start_.value_or(Timestamp());
  Timestamp end = end_;
  for (std::size_t i = 0; i < timeline_.size() && !options_.from && !options_.to; ++i) {
    const SourceCounters& counters = timeline_.source(i).counters();
    if (!timeline_.source(i).info().host || counters.events == 0) continue;
    start = std::min(start, counters.first);
    end = std::max(end, counters.last);
  }
  report.start_ns = start.ns();
  report.end_ns = end.ns();
}

void Analysis::report_sources(Report& report) const {
  for (std::size_t i = 0; i < timeline_.size(); ++i) {
    const Source& source = timeline_.source(i);
    const SourceCounters& counters = source.counters();
    SourceRow row;
    row.path = source.info().path;
    row.kind = source.info().kind;
    row.clock = source.info().clock;
    row.method = source.info().method;
    row.offset_ns = source.info().offset_ns;
    row.error_ns = source.info().error_ns;
    row.events = counters.events;
    row.lost = counters.lost_events;
    report.sources.push_back(std::move(row));
    report.counters.lost_events += counters.lost_events;
    report.counters.gaps += counters.gaps;
    report.counters.gaps_uncounted += counters.gaps_uncounted;
    report.counters.damaged_events += counters.damaged_events;
  }
  report.counters.exits = tracker_.counters();
  report.counters.guest_records = stacks_.records();
  report.counters.groups_folded = groups_.folded();
}

void Analysis::report_vcpus(Report& report) {
  const std::vector<VcpuThread> threads = vcpu_threads(tracker_, timeline_);
  const std::vector<Vm> vms = find_vms(threads, processes_);
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const VcpuThread& thread = threads[i];
    if (!counts(thread.thread)) continue;
    const VcpuTotals& totals = tracker_.threads()[i].state.totals;
    report.vcpus.push_back({vms[i].name(), vms[i].inferred, thread.vcpu,
                            static_cast<std::int32_t>(thread.thread),
                            timeline_.source(totals.source).comm(thread.thread), totals});
  }
  std::sort(report.vcpus.begin(), report.vcpus.end(), [](const VcpuRow& a, const VcpuRow& b) {
    return std::tie(a.vm, a.vcpu, a.tid) < std::tie(b.vm, b.vcpu, b.tid);
  });
  vcpus_ = VcpuNames(threads, vms);
}

void Analysis::report_groups(Report& report) {
  std::map<std::string, GroupRow> rows;  // two numbers may have one name
  for (Groups::Group& group : groups_.groups()) {
    std::string key = keys_.text(group.key, timeline_.source(0), vcpus_);
    const auto [place, is_new] = rows.try_emplace(std::move(key), std::move(group.row));
    if (!is_new) place->second.merge(group.row);
  }
  for (auto& [key, row] : rows) {
    row.key = key;
    report.rows.push_back(std::move(row));
  }
  std::stable_sort(report.rows.begin(), report.rows.end(),
                   [&](const GroupRow& a, const GroupRow& b) {
                     return measure(a, options_.sort, model_.durations()) >
                            measure(b, options_.sort, model_.durations());
                   });
  if (options_.top != 0 && report.rows.size() > options_.top) {
    report.rows_left_out = report.rows.size() - options_.top;
    report.rows.resize(options_.top);
  }
  if (groups_.other().total.count() != 0) {
    groups_.other().key = Report::kFoldedKey;
    report.rows.push_back(std::move(groups_.other()));
  }
}

void Analysis::report_qemu_events(Report& report) const {
  const auto& counts = tracker_.qemu_events();
  for (NameId name = 1; name < counts.size(); ++name) {
    if (counts[name].count != 0) {
      report.qemu_events.push_back({printable(names_[name]), counts[name]});
    }
  }
  std::sort(report.qemu_events.begin(), report.qemu_events.end(),
            [](const QemuEventRow& a, const QemuEventRow& b) {
              return std::tie(b.count.count, a.name) < std::tie(a.count.count, b.name);
            });
}

void Analysis::report_halts(Report& report) {
  auto& rows = report.halts.emplace();
  for (auto& entry : halts_.threads()) {
    if (!counts(entry.thread)) continue;
    rows.push_back({entry.state.vcpu, vcpus_.vm(entry.thread), std::move(entry.state.polls_won),
                    std::move(entry.state.slept), std::move(entry.state.wake_to_run),
                    entry.state.invalid});
  }
}

void Analysis::report_guest(Report& report) const {
  auto& rows = report.guest_functions.emplace();
  const auto& functions = stacks_.functions();
  for (NameId name = 1; name < functions.size(); ++name) {
    const GuestFunctionTimes& times = functions[name];
    if (times.calls != 0 || times.exits != 0) rows.push_back({printable(names_[name]), times});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.times.own_ns() > b.times.own_ns();
  });
  if (options_.top != 0 && rows.size() > options_.top) rows.resize(options_.top);
}

}  // namespace trapline
