#include "merge/explain/advise.h"

#include <fmt/format.h>

#include <algorithm>

#include "merge/model/kernel_events.h"
#include "merge/report/causes.h"
#include "merge/report/head.h"
#include "merge/report/notes.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

// QEMU's name for ports without a device.
constexpr std::string_view kUnassigned = "io";

// Returns whether the fault is in the guest's memory as the host maps it, for x86. With shadow
// paging a fault is in the guest's own tables, and larger pages of the host do not avoid it.
bool is_of_memory(const ExitSpan& exit) {
  constexpr std::uint32_t kEptViolation = 48, kNpf = 0x400;
  if (exit.reason.isa == kIsaVmx) return exit.reason.reason == kEptViolation;
  return exit.reason.isa != kIsaSvm || exit.reason.reason == kNpf;
}
bool is_fault_without_address(const ExitSpan& exit) {
  return is_x86(exit.reason) && is_of_memory(exit) && exit.detail.kind == DetailKind::kNone;
}

}  // namespace

void AdviceSink::Sum::add(const Sum& other) {
  exits += other.exits;
  cost += other.cost;
  beyond_kernel += other.beyond_kernel;
  between += other.between;
  rows += other.rows;
  first_faults += other.first_faults;
  first_cost += other.first_cost;
  ports |= other.ports;
  answered |= other.answered;
}

// Returns the change that concerns the exit. Counts exits for which the recording does not show
// enough.
RemedyId AdviceSink::change(const ExitSpan& exit, Thread& thread, const Pipeline& pipeline) {
  const bool to_user = exit.userspace_reason != ExitSpan::kNoUserspaceReason;
  const bool faults = exit.detail.kind == DetailKind::kPageFault;
  if (exit.device != kNoName) {
    if (by_device_.size() <= exit.device) by_device_.resize(exit.device + std::size_t{1}, 0);
    std::uint8_t& known = by_device_[exit.device];
    if (known == 0)
      known = static_cast<std::uint8_t>(
          static_cast<unsigned>(remedy_of_device(pipeline.names()[exit.device])) + 1);
    const auto change = static_cast<RemedyId>(known - 1);
    if (change != RemedyId::kNone || pipeline.names()[exit.device] != kUnassigned) return change;
    const bool debug =
        is_x86(exit.reason) && remedy_of_address(exit.detail, to_user) == RemedyId::kDebugPort;
    return debug ? RemedyId::kDebugPort : RemedyId::kNone;
  }
  if (!to_user) {
    if (is_fault_without_address(exit)) thread.unnamed_faults += cost_ns(exit.parts);
    // A larger page does not come sooner if a thread must fetch it.
    const bool fetched = std::ranges::any_of(
        pipeline.waits()->shares(),
        [](const WaitShare& share) { return share.culprit.kind == CulpritKind::kPage; });
    if (faults) return is_of_memory(exit) && !fetched ? RemedyId::kPages : RemedyId::kNone;
    const RemedyId served = remedy_of_kernel_exit(exit);
    if (served != RemedyId::kNone || !is_x86(exit.reason)) return served;
    return remedy_of_address(exit.detail, to_user);
  }
  const RemedyId change =
      is_x86(exit.reason) ? remedy_of_address(exit.detail, to_user) : RemedyId::kNone;
  const bool of_device =
      exit.userspace_reason == kUserspaceIo || exit.userspace_reason == kUserspaceMmio ||
      exit.detail.kind == DetailKind::kPort || exit.detail.kind == DetailKind::kMmio;
  if (change == RemedyId::kNone && of_device) thread.unnamed += cost_ns(exit.parts);
  return change;
}

void AdviceSink::add_fault(const ExitSpan& exit, Sum& sum, const Pipeline& pipeline) {
  constexpr unsigned kHugePage = 21;
  const ThreadId process = pipeline.processes().of(exit.thread, {});
  const std::pair range{process, exit.detail.value >> kHugePage};
  const bool seen = ranges_.contains(range);
  if (!seen && ranges_.size() < kMostRanges) ranges_.insert(range);
  if (seen) return;
  ++sum.first_faults;
  sum.first_cost += cost_ns(exit.parts);
}

void AdviceSink::add_port(const ExitSpan& exit, Sum& sum, const Pipeline& pipeline) {
  for (std::size_t i = 0; exit.detail.kind == DetailKind::kPort && i < kDebugPorts.size(); ++i) {
    if (exit.detail.value == kDebugPorts[i])
      sum.ports = static_cast<std::uint8_t>(sum.ports | 1u << i);
  }
  if (exit.device == kNoName || pipeline.names()[exit.device] != kUnassigned) sum.answered = true;
}

void AdviceSink::add_waits(const ExitSpan& exit, const Pipeline& pipeline) {
  const bool iothread = exit.device != kNoName && can_have_iothread(pipeline.names()[exit.device]);
  // The exit did nothing but let the vCPU wait.
  const bool only_switch = exit.detail.kind == DetailKind::kNone && !exit.halt &&
                           exit.userspace_reason == ExitSpan::kNoUserspaceReason;
  bool counted = false;
  for (const WaitShare& share : pipeline.waits()->shares()) {
    Culprit culprit = share.culprit;
    culprit.root = CulpritKind::kUnknown;
    const Waiting waiting{exit.thread, share.part, iothread, culprit};
    if (!waits_.contains(waiting) && waits_.size() >= kMostCulprits) continue;
    Wait& wait = waits_[waiting];
    wait.ns += share.length();
    ++wait.count;
    if (only_switch && !counted && share.part == Part::kPreempted) {
      wait.switches += cost_ns(exit.parts);
      counted = true;
    }
  }
}

void AdviceSink::exit(const ExitSpan& exit, const Pipeline& pipeline) {
  Thread* thread = threads_.get(exit.thread, kMostThreads);
  if (thread == nullptr) return;
  const std::uint64_t cost = cost_ns(exit.parts);
  const std::uint64_t kernel = exit.parts[static_cast<std::size_t>(Part::kKernel)];
  add_waits(exit, pipeline);
  const Timestamp last_end = std::exchange(thread->last_end, exit.end);
  if (last_end != Timestamp()) runs_.add(elapsed(last_end, exit.start));
  if (exit.halt) {
    if (exit.parts[static_cast<std::size_t>(Part::kHalted)] != 0)
      thread->sleeps_waited += exit.parts[static_cast<std::size_t>(Part::kPreempted)];
    thread->last = RemedyId::kNone;
    return;
  }
  const RemedyId id = change(exit, *thread, pipeline);
  if (id != RemedyId::kNone) {
    Sum& sum = thread->sums[static_cast<std::size_t>(id)];
    ++sum.exits;
    sum.cost += cost;
    sum.beyond_kernel += cost - kernel;
    if (id == RemedyId::kPages) add_fault(exit, sum, pipeline);
    if (id == RemedyId::kDebugPort) add_port(exit, sum, pipeline);
    if (thread->last == id) {
      // At most four fifths of the access's cost, so that the interval has a bound.
      sum.between += std::min(elapsed(last_end, exit.start), cost * 4 / 5);
    } else {
      ++sum.rows;
    }
  }
  // An interrupt of the host does not end a series of accesses.
  if (id != RemedyId::kNone || exit.detail.kind != DetailKind::kNone) thread->last = id;
}

Result<Advice> run_advise(const PassOptions& what, bool no_quota, const Progress& progress) {
  AdviceSink sink(no_quota);
  auto pass = Pass::read(what, {&sink}, progress);
  if (!pass) return tl::unexpected(std::move(pass).error());
  if (auto found = pass->check_times(); !found) return tl::unexpected(std::move(found).error());
  const ExitModel& model = pass->pipeline().exits().model();
  if (!model.durations() || model.from_userspace_exit) {
    return fail(ErrorKind::kUsage,
                "{}: it does not tell how long its vCPUs were in the guest and in exits; record {} "
                "and {}",
                pass->path(), events::kvm_exit.full_name, events::kvm_entry.full_name);
  }
  Advice advice = sink.advice(pass->naming());
  advice.begun = begin_report("advise", *pass);
  advice.notes = notes_of(*pass);
  if (!pass->pipeline().exits().saw_halts())
    advice.notes.push_back(no_halt_note(pass->pipeline().is_window()));
  if (const std::string losses = losses_note(pass->timeline()); !losses.empty())
    advice.notes.push_back(losses);
  return advice;
}

std::string host_text(const AdviceRow& row) {
  const auto whole = static_cast<double>(row.interval_ns);
  return fmt::format("{:.3f} to {:.3f} CPUs of the host",
                     static_cast<double>(row.host_low_ns) / whole,
                     static_cast<double>(row.host_high_ns) / whole);
}

namespace {

// Returns the gain of a change as a text, or that it is not known.
std::string gain_text(const AdviceRow& row) {
  if (row.host_high_ns != 0) return fmt::format("saves {}", host_text(row));
  if (row.gain_high_ns != 0)
    return fmt::format("gains {} to {} of the busy time",
                       percent_text(row.gain_low_ns, row.busy_ns),
                       percent_text(row.gain_high_ns, row.busy_ns));
  if (row.quota_possible)
    return fmt::format(
        "costs at most {}; a CPU quota may have kept them waiting: their cgroups' "
        "cpu.stat tells (trapline record), or --assume no-quota",
        percent_text(row.cost_ns, row.busy_ns));
  return fmt::format("costs {}; {}", percent_text(row.cost_ns, row.busy_ns),
                     remedy_of(row.id).model == AdviceModel::kNone
                         ? "the gain is not validated"
                         : "the gain may be below 1%, or is not known within a factor of two");
}

std::vector<Paragraph> sentences_of(const AdviceRow& row, std::size_t rank) {
  const Remedy& remedy = remedy_of(row.id);
  std::vector<Paragraph> sentences = {{},
                                      {.text = fmt::format("{}: {}", row.cause, gain_text(row)),
                                       .label = fmt::format("{}.", rank),
                                       .figures = true},
                                      {.text = row.change, .label = "   change:"},
                                      {.text = row.rests_on, .label = "   rests on:"}};
  if (row.gain_high_ns != 0 || row.host_high_ns != 0)
    sentences.push_back({.text = std::string(assumption_of(remedy.model)), .label = "   assumes:"});
  if (!remedy.elsewhere.empty())
    sentences.push_back({.text = std::string(remedy.elsewhere), .label = "   elsewhere:"});
  return sentences;
}

// Changes without a figure come last.
Table advice_table(const Advice& advice) {
  using Row = AdviceRow;
  std::vector<Row> rows = advice.rows;
  for (const auto* more : {&advice.of_host, &advice.not_validated})
    rows.insert(rows.end(), more->begin(), more->end());
  TableOf<Row> table({.key = "advice", .csv = true}, std::move(rows), &Row::cause);
  table.sentences = [all = table.all()](std::size_t row) {
    return sentences_of(all[row], row + 1);
  };
  const auto add_change = [&table](const char* key, auto get) {
    table.add({.key = key}, [get](const Row& row) { return text_or_null(get(row)); });
  };
  const auto add_gain = [&table](const char* key, std::uint64_t Row::*ns, bool share) {
    table.add({.key = key}, [=](const Row& row) -> CellValue {
      if (row.gain_high_ns == 0) return {};
      if (!share) return to_value(row.*ns);
      return static_cast<double>(row.*ns) / static_cast<double>(row.busy_ns);
    });
  };
  const auto add_host = [&table](const char* key, std::uint64_t Row::*ns) {
    table.add({.key = key}, [=](const Row& row) {
      return row.host_high_ns != 0 ? to_value(row.*ns) : CellValue();
    });
  };
  table.add({.key = "id", .unit = Unit::kWord},
            [](const Row& row) { return remedy_of(row.id).id; });
  table.add({.key = "vm", .unit = Unit::kWord},
            [](const Row& row) { return text_or_null(row.vm); });
  table.add({.key = "vm_name"}, [](const Row& row) { return text_or_null(row.vm_name); });
  table.add({.key = "cause"}, &Row::cause);
  table.add({.key = "change"}, &Row::change);
  add_gain("gain_low", &Row::gain_low_ns, true);
  add_gain("gain_high", &Row::gain_high_ns, true);
  add_gain("gain_low_ns", &Row::gain_low_ns, false);
  add_gain("gain_high_ns", &Row::gain_high_ns, false);
  add_host("host_low_ns", &Row::host_low_ns);
  add_host("host_high_ns", &Row::host_high_ns);
  table.add({"count"}, &Row::count);
  table.add({"cost_ns"}, &Row::cost_ns);
  table.add({.key = "rests_on"}, &Row::rests_on);
  add_change("assumes", [](const Row& row) { return assumption_of(remedy_of(row.id).model); });
  add_change("elsewhere", [](const Row& row) { return remedy_of(row.id).elsewhere; });
  return table;
}

}  // namespace

Report make_report(const Advice& advice) {
  Report report = advice.begun;
  report.head.push_back({"overhead.guest_ns", advice.busy.guest_ns});
  report.head.push_back({"overhead.exit_ns", advice.busy.exit_ns});
  report.head.push_back({"overhead.not_run_ns", advice.busy.not_run_ns});
  report.head.push_back({"finding", advice.finding});
  report.head.push_back({"record", advice.record});
  for (const std::string& sentence : advice.finding)
    report.before.push_back({.text = sentence, .figures = true});
  report.tables.push_back(advice_table(advice));
  report.notes = advice.notes;
  if (!advice.record.empty() || !advice.notes.empty()) report.after.emplace_back();
  for (const std::string& line : advice.record)
    report.after.push_back({.text = line, .label = "record:"});
  for (const std::string& note : advice.notes)
    report.after.push_back(note_paragraph(note, LabelLook::kPlain));
  return report;
}

}  // namespace trapline
