#include "merge/report/analysis.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/report/exit_text.h"

namespace trapline {
namespace {

std::size_t words_of_all(const std::vector<Dimension>& dimensions) {
  std::size_t words = 0;
  for (const Dimension dimension : dimensions) words += words_of(dimension);
  return words;
}

// A reason in one word; its three numbers are small.
std::uint64_t pack(const ExitReason& reason) {
  return std::uint64_t{reason.reason} << 32 | (std::uint64_t{reason.isa} & 0xffff) << 16 |
         (reason.exception_class & 0xffff);
}
ExitReason unpack_reason(std::uint64_t word) {
  return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word >> 16) & 0xffff,
          static_cast<std::uint32_t>(word) & 0xffff};
}
std::uint64_t pack_kind(const KvmDetail& detail) {
  return std::uint64_t{static_cast<std::uint8_t>(detail.kind)} << 8 |
         static_cast<std::uint8_t>(detail.access);
}
KvmDetail unpack_detail(std::uint64_t value, std::uint64_t kind) {
  return {value, 0, static_cast<DetailKind>(kind >> 8), static_cast<Access>(kind & 0xff), false};
}

std::string name_or_dash(const Names& names, NameId id) {
  return id == kNoName ? "-" : printable(names[id]);
}

}  // namespace

Result<TimeSpec> parse_time_spec(std::string_view option, std::string_view text) {
  const bool relative = !text.empty() && text.front() == '+';
  const auto ns = parse_time(relative ? text.substr(1) : text);
  if (!ns) {
    return fail(
        ErrorKind::kUsage,
        "{}: '{}' is no time; write seconds of the recording's clock (12.5), or a time from "
        "its start (+500ms)",
        option, text);
  }
  return TimeSpec{*ns, relative};
}

Result<SortBy> parse_sort(std::string_view text) {
  constexpr std::pair<std::string_view, SortBy> kSorts[] = {
      {"total", SortBy::kTotal}, {"count", SortBy::kCount}, {"mean", SortBy::kMean},
      {"max", SortBy::kMax},     {"p99", SortBy::kP99},     {"key", SortBy::kKey}};
  for (const auto& [name, sort] : kSorts) {
    if (name == text) return sort;
  }
  return fail(ErrorKind::kUsage,
              "--sort: unknown '{}'; there are total, count, mean, max, p99, key", text);
}

Analysis::Analysis(const Timeline& timeline, const Input& input, const ReportOptions& options)
    : timeline_(timeline),
      input_(input),
      options_(options),
      reader_(names_, input.declared),
      model_(choose_exit_model(input.traits)),
      tracker_(model_, reader_),
      processes_(input.processes),
      groups_(words_of_all(options.by)),
      stacks_(names_),
      to_(std::numeric_limits<std::uint64_t>::max()),
      requests_(options.request_specs.empty() ? known_requests() : options.request_specs, names_,
                input.declared),
      request_path_(names_, requests_),
      request_rows_(requests_.specs().size()),
      request_paths_(requests_.specs().size()) {
  for (std::size_t i = 0; i < timeline.size(); ++i) has_guest_ |= !timeline.source(i).info().host;
  const auto by = [&](Dimension dimension) {
    return std::find(options.by.begin(), options.by.end(), dimension) != options.by.end();
  };
  needs_stack_ = has_guest_ || by(Dimension::kFunction) || by(Dimension::kStack);
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
  if (options_.requests) on_request(event);
  if (options_.irq) {
    if (const IrqSpan* span = irq_.on(event, processes_.of(event.thread, {}))) take_irq(*span);
  }
  if (options_.halt) halt_.on(event);
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

GroupKey Analysis::key_of(const ExitSpan& span, StackId stack) const {
  GroupKey key;
  std::size_t at = 0;
  for (const Dimension dimension : options_.by) {
    switch (dimension) {
      case Dimension::kReason:
        key.words[at++] = pack(span.reason);
        break;
      case Dimension::kDetail:
        key.words[at++] = span.detail.value;
        key.words[at++] = pack_kind(span.detail);
        break;
      case Dimension::kDevice:
        key.words[at++] = span.device;
        break;
      case Dimension::kQemuEvent:
        key.words[at++] = span.qemu_event;
        break;
      case Dimension::kFunction:
        key.words[at++] = stacks_.innermost(stack);
        break;
      case Dimension::kStack:
        key.words[at++] = stack;
        break;
      case Dimension::kVcpu:
      case Dimension::kVm:
        key.words[at++] = static_cast<std::uint32_t>(span.thread);
        break;
    }
  }
  return key;
}

void Analysis::take(const ExitSpan& span) {
  if (!counts(span.thread)) return;
  const bool slow = options_.slower_than && span.total() >= *options_.slower_than;
  const StackId stack = needs_stack_ || slow ? stack_of(span) : kNoStack;
  if (slow) keep_slow(span, stacks_.innermost(stack));
  if (has_guest_) stacks_.on_span(span, stack);
  groups_.add(key_of(span, stack), span);
}

void Analysis::keep_slow(const ExitSpan& span, NameId function) {
  const auto faster_last = [](const SlowExit& a, const SlowExit& b) {
    return a.span.total() > b.span.total();
  };
  if (slow_.size() >= kMostSlowExits) {
    ++slow_left_out_;
    if (slow_.front().span.total() >= span.total()) return;
    std::pop_heap(slow_.begin(), slow_.end(), faster_last);
    slow_.pop_back();
  }
  slow_.push_back({span, function, tracker_.counters().exits});
  std::push_heap(slow_.begin(), slow_.end(), faster_last);
}

void Analysis::on_request(const Event& event) {
  const ThreadId process = processes_.of(event.thread, {});
  const auto* marker = std::get_if<Marker>(&event.payload);
  if (marker == nullptr) {
    for (const Delivered& delivered : request_path_.on(event, process)) {
      const RequestSpan& request = delivered.request;
      RequestPathRow& row = request_paths_[request.spec];
      row.to_injection.add(elapsed(request.end, delivered.injected));
      if (request.notified) row.whole.add(elapsed(*request.notified, delivered.injected));
    }
    return;
  }
  const QemuEvent* qemu = tracker_.last_qemu_event();
  if (qemu == nullptr) return;
  const RequestSpan* span = request_path_.on_marker(event, *marker, qemu->name, process);
  if (span == nullptr) return;
  if (span->notified) {
    request_paths_[span->spec].from_notify.add(elapsed(*span->notified, span->start));
  }
  GroupRow& row = request_rows_[span->spec];
  const std::uint64_t total = elapsed(span->start, span->end);
  if (total > row.total.max() || row.total.count() == 0) row.max_at_ns = span->start.ns();
  row.total.add(total);
}

void Analysis::take_irq(const IrqSpan& span) {
  constexpr std::size_t kMostRows = 4096;
  const std::tuple key{span.vector, span.origin,
                       span.origin == IrqSpan::Origin::kLine ? span.pin : 0};
  if (irq_rows_.size() >= kMostRows && !irq_rows_.contains(key)) return;
  IrqRow& row = irq_rows_[key];
  ++row.raised;
  if (span.injected) {
    ++row.injected;
    row.to_inject.add(elapsed(span.raised, *span.injected));
  }
  if (span.entered) row.to_entry.add(elapsed(span.raised, *span.entered));
  if (span.ended) row.to_eoi.add(elapsed(span.injected.value_or(span.raised), *span.ended));
}

std::string Analysis::vm_of(ThreadId thread) const {
  const auto found = vcpu_index_.find(thread);
  return found == vcpu_index_.end() ? "?" : vms_[found->second].name();
}

std::string Analysis::vcpu_text(ThreadId thread, bool with_vm) const {
  const auto found = vcpu_index_.find(thread);
  const std::int32_t vcpu =
      found == vcpu_index_.end() ? kNoVcpu : vcpu_threads_[found->second].vcpu;
  const std::string number = vcpu == kNoVcpu
                                 ? fmt::format("tid {}", static_cast<std::int32_t>(thread))
                                 : fmt::format("vcpu {}", vcpu);
  return with_vm && vm_count_ > 1 ? fmt::format("vm {} {}", vm_of(thread), number) : number;
}

std::string Analysis::text_of(const GroupKey& key) const {
  std::string text;
  std::size_t at = 0;
  const bool by_vm =
      std::find(options_.by.begin(), options_.by.end(), Dimension::kVm) != options_.by.end();
  for (const Dimension dimension : options_.by) {
    if (at != 0) text += " / ";
    const std::uint64_t word = key.words[at++];
    switch (dimension) {
      case Dimension::kReason:
        text += printable(reason_text(timeline_.source(0), unpack_reason(word)));
        break;
      case Dimension::kDetail:
        text += detail_text(unpack_detail(word, key.words[at++]));
        break;
      case Dimension::kDevice:
      case Dimension::kQemuEvent:
        text += name_or_dash(names_, static_cast<NameId>(word));
        break;
      case Dimension::kFunction:
        text += word == kNoName ? "[unknown]" : printable(names_[static_cast<NameId>(word)]);
        break;
      case Dimension::kStack:
        text += printable(stacks_.text(static_cast<StackId>(word)));
        break;
      case Dimension::kVcpu:
        text += vcpu_text(ThreadId{static_cast<std::int32_t>(word)}, !by_vm);
        break;
      case Dimension::kVm:
        text += vm_of(ThreadId{static_cast<std::int32_t>(word)});
        break;
    }
  }
  return text;
}

Report Analysis::finish() {
  while (const ExitSpan* span = tracker_.finish()) take(*span);
  while (const IrqSpan* span = options_.irq ? irq_.finish() : nullptr) take_irq(*span);
  Report report;
  report.model = model_;
  report.by = options_.by_text;
  find_interval(report);
  report.cycles = timeline_.source(0).info().cycles;
  report_sources(report);
  report_vcpus(report);
  if (options_.requests) {
    report_requests(report);
  } else {
    report_groups(report);
  }
  report_qemu_events(report);
  if (options_.slower_than) report_slow_exits(report);
  if (options_.irq) report_irqs(report);
  if (options_.halt) report_halts(report);
  if (options_.guest) report_guest(report);
  report_notes(report);
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
  for (const auto& entry : tracker_.threads()) {
    vcpu_index_[entry.thread] = vcpu_threads_.size();
    vcpu_threads_.push_back({entry.thread, entry.state.totals.vcpu});
  }
  vms_ = find_vms(vcpu_threads_, processes_);
  std::set<std::string> names;
  for (std::size_t i = 0; i < vcpu_threads_.size(); ++i) {
    names.insert(vms_[i].name());
    const VcpuThread& thread = vcpu_threads_[i];
    if (!counts(thread.thread)) continue;
    const VcpuTotals& totals = tracker_.threads()[i].state.totals;
    report.vcpus.push_back({vms_[i].name(), vms_[i].inferred, thread.vcpu,
                            static_cast<std::int32_t>(thread.thread),
                            timeline_.source(totals.source).comm(thread.thread), totals});
  }
  vm_count_ = names.size();
  std::sort(report.vcpus.begin(), report.vcpus.end(), [](const VcpuRow& a, const VcpuRow& b) {
    return std::tie(a.vm, a.vcpu, a.tid) < std::tie(b.vm, b.vcpu, b.tid);
  });
}

void Analysis::report_groups(Report& report) {
  std::map<std::string, GroupRow> rows;  // two numbers may have one name
  for (Groups::Group& group : groups_.groups()) {
    std::string key = text_of(group.key);
    const auto [place, is_new] = rows.try_emplace(std::move(key), std::move(group.row));
    if (!is_new) place->second.merge(group.row);
  }
  for (auto& [key, row] : rows) {
    row.key = key;
    report.rows.push_back(std::move(row));
  }
  const auto measure = [&](const GroupRow& row) -> std::uint64_t {
    switch (options_.sort) {
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
        return model_.durations() ? row.total.total() : row.total.count();
    }
  };
  std::stable_sort(report.rows.begin(), report.rows.end(),
                   [&](const GroupRow& a, const GroupRow& b) { return measure(a) > measure(b); });
  if (options_.top != 0 && report.rows.size() > options_.top) {
    report.rows_left_out = report.rows.size() - options_.top;
    report.rows.resize(options_.top);
  }
  if (groups_.other().total.count() != 0) {
    groups_.other().key = Report::kFoldedKey;
    report.rows.push_back(std::move(groups_.other()));
  }
}

void Analysis::report_requests(Report& report) {
  report.requests = true;
  report.counters.requests_restarted = requests_.restarted();
  report.counters.requests_end_only = requests_.end_without_start();
  report.counters.requests_open = requests_.open();
  report.counters.notifies_ambiguous = request_path_.notifies_ambiguous();
  report.counters.interrupts_ambiguous = request_path_.interrupts_ambiguous();
  for (std::size_t spec = 0; spec < request_rows_.size(); ++spec) {
    if (request_rows_[spec].total.count() == 0) continue;
    request_rows_[spec].key = printable(requests_.specs()[spec].name());
    request_paths_[spec].key = request_rows_[spec].key;
    request_paths_[spec].requests = request_rows_[spec].total.count();
    report.request_paths.push_back(std::move(request_paths_[spec]));
    report.rows.push_back(std::move(request_rows_[spec]));
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

void Analysis::report_slow_exits(Report& report) {
  report.slower_than_ns = *options_.slower_than;
  report.slow_left_out = slow_left_out_;
  std::sort(slow_.begin(), slow_.end(), [](const SlowExit& a, const SlowExit& b) {
    return std::tuple(a.span.start, a.order) < std::tuple(b.span.start, b.order);
  });
  auto& rows = report.slow_exits.emplace();
  for (const SlowExit& slow : slow_) {
    const ExitSpan& span = slow.span;
    const Source& source = timeline_.source(span.source);
    ExitRow row{span,
                vcpu_text(span.thread, true),
                slow.function == kNoName ? "[unknown]" : printable(names_[slow.function]),
                printable(reason_text(source, span.reason)),
                detail_text(span.detail),
                name_or_dash(names_, span.device),
                "-"};
    if (span.preempted_by != ThreadId{}) {
      row.preempted_by = fmt::format("{}-{}", printable(source.comm(span.preempted_by)),
                                     static_cast<std::int32_t>(span.preempted_by));
    }
    rows.push_back(std::move(row));
  }
}

void Analysis::report_irqs(Report& report) {
  auto& rows = report.irqs.emplace();
  report.irqs_coalesced = irq_.coalesced();
  for (auto& [key, row] : irq_rows_) {
    const auto& [vector, origin, pin] = key;
    row.vector = vector == kNoVector ? "-" : fmt::format("{:#x}", vector);
    row.pin = origin == IrqSpan::Origin::kLine  ? fmt::format("pin {}", pin)
              : origin == IrqSpan::Origin::kMsi ? "msi"
                                                : "local";
    rows.push_back(std::move(row));
  }
}

void Analysis::report_halts(Report& report) {
  auto& rows = report.halts.emplace();
  for (auto& entry : halt_.threads()) {
    if (!counts(entry.thread)) continue;
    rows.push_back({entry.state.vcpu, vm_of(entry.thread), std::move(entry.state.polls_won),
                    std::move(entry.state.slept), std::move(entry.state.wake_to_run),
                    entry.state.invalid});
  }
}

void Analysis::report_guest(Report& report) {
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

void Analysis::report_notes(Report& report) const {
  auto& notes = report.notes;
  notes = input_.notes;
  const bool has_exits = input_.traits.kvm_exit || input_.traits.kvm_userspace_exit;
  if (!has_exits) {
    notes.push_back("no VM exits were recorded: only the events in trace_marker are counted");
    return;
  }
  if (model_.from_userspace_exit) {
    notes.push_back(model_.durations()
                        ? "no kvm_exit was recorded: exits are those to user space, and their time "
                          "is the time in user space"
                        : "neither kvm_exit nor an end of user time was recorded: exits to user "
                          "space are counted, without durations; enable syscalls:sys_enter_ioctl");
  }
  if (model_.durations() && model_.user_end == UserEnd::kReload && model_.userspace_exits) {
    notes.push_back(
        "user time ends where KVM reloads the guest's state; for its exact end record "
        "syscalls:sys_enter_ioctl as well");
  }
  if (model_.user_end == UserEnd::kEntry && model_.userspace_exits) {
    notes.push_back(
        "user time ends at kvm_entry and holds the kernel's way back; for its exact "
        "end record syscalls:sys_enter_ioctl as well");
  }
  if (!model_.userspace_exits) {
    notes.push_back("kvm_userspace_exit was not recorded: user time is in the kernel part");
  }
  if (model_.durations() && !model_.sched_switch) {
    notes.push_back(
        "sched_switch was not recorded: preempted and blocked time is in the other "
        "parts");
  } else if (model_.durations() && !model_.wakeups) {
    notes.push_back("no wake-ups were recorded: a sleeping vCPU counts as blocked until it runs");
  }
  if (report.cycles) {
    notes.push_back(
        "times are cycles of the TSC: the recording does not tell its frequency; give "
        "--tsc-khz");
  }
  const bool inferred = std::any_of(report.vcpus.begin(), report.vcpus.end(),
                                    [](const VcpuRow& row) { return row.vm_inferred; });
  if (vm_count_ > 1 && inferred) {
    notes.push_back(
        "which vCPU belongs to which VM (~) is inferred from their numbers; record "
        "task:task_newtask to know it");
  }
}

}  // namespace trapline
