#include "merge/explain/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "merge/model/kernel_events.h"
#include "merge/pass/first_look.h"
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
  for (const auto of : {&Sum::exits, &Sum::cost, &Sum::beyond_kernel, &Sum::between, &Sum::rows,
                        &Sum::first_faults, &Sum::first_cost, &Sum::doubtful_cost})
    this->*of += other.*of;
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
    if (faults) {
      const PageFault& fault = pipeline.faults()->last();
      if (!fault.address) return RemedyId::kNone;
      return remedy_of_fault(fault, pipeline.threads().name_at(fault.why.by, exit.start));
    }
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
  // A larger page may not end a fault that is neither the first on its page nor a copy, nor a fault
  // that may have waited for another thread.
  const PageFault& fault = pipeline.faults()->last();
  const bool by_copy = fault.why.cause == FaultCause::kCopy;
  const bool slept = fault.why.lack == FaultLack::kServer || fault.why.lack == FaultLack::kSlept;
  if ((fault.first != true && !by_copy) || slept) {
    sum.doubtful_cost += cost_ns(exit.parts);
    return;
  }
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
    const std::span<const WaitShare> slept = pipeline.waits()->halts();
    const Timestamp asleep = slept.empty() ? exit.end : slept.front().begin;
    if (thread->by_timer) thread->timers_ns += elapsed(*thread->by_timer, asleep);
    thread->by_timer.reset();
    if (!slept.empty() && slept.back().culprit->kind == CulpritKind::kTimer) {
      thread->by_timer = slept.back().end;
      ++thread->timers;
    }
    // KVM would not have polled where another thread ran.
    for (const WaitShare& share : pipeline.waits()->shares())
      if (!slept.empty() && share.culprit->kind == CulpritKind::kIdle)
        thread->sleeps_waited += share.length();
    thread->last = RemedyId::kNone;
    return;
  }
  if (exit.userspace_reason != ExitSpan::kNoUserspaceReason) thread->to_user += cost;
  const RemedyId id = change(exit, *thread, pipeline);
  if (id != RemedyId::kNone) {
    Sum& sum = thread->sums[static_cast<std::size_t>(id)];
    ++sum.exits;
    sum.cost += cost;
    sum.beyond_kernel += cost - kernel;
    if (id == RemedyId::kPages) add_fault(exit, sum, pipeline);
    if (id == RemedyId::kDebugPort) add_port(exit, sum, pipeline);
    if (thread->last == id) {
      // Counts at most four fifths of the access's cost, so that the gain has an upper bound.
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
  const std::string losses = losses_note(*pass);
  if (!pass->pipeline().exits().saw_halts())
    advice.begun.notes.push_back(no_halt_note(pass->pipeline().is_window(), !losses.empty()));
  if (!losses.empty()) advice.begun.notes.push_back(losses);
  return advice;
}

std::string host_text(const AdviceRow& row) {
  const auto cpus = [&row](std::uint64_t ns) {
    return static_cast<double>(ns) / static_cast<double>(row.interval_ns);
  };
  const double most = cpus(row.host_high_ns);
  if (row.host_low_ns == 0) return fmt::format("at most {:.3f} CPUs of the host", most);
  return fmt::format("{:.3f} to {:.3f} CPUs of the host", cpus(row.host_low_ns), most);
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
  return fmt::format(
      "costs {}; {}", percent_text(row.cost_ns, row.busy_ns),
      remedy_of(row.id).model == AdviceModel::kNone ? "gain not validated" : "gain unknown");
}

std::vector<Paragraph> sentences_of(const AdviceRow& row, std::size_t rank) {
  const Remedy& remedy = remedy_of(row.id);
  std::vector<Paragraph> sentences = {{},
                                      {.text = fmt::format("{}: {}", row.cause, gain_text(row)),
                                       .label = fmt::format("{}.", rank),
                                       .figures = true},
                                      {.text = row.change, .label = "   change:"},
                                      {.text = row.rests_on, .label = "   based on:"}};
  if (row.gain_high_ns != 0 || row.host_high_ns != 0)
    sentences.push_back({.text = std::string(assumption_of(remedy.model)), .label = "   if:"});
  if (!remedy.elsewhere.empty())
    sentences.push_back({.text = std::string(remedy.elsewhere), .label = "   side effect:"});
  return sentences;
}

// Returns the table of all changes; changes without a figure come last.
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
  if (!advice.record.empty() || !report.notes.empty()) report.after.emplace_back();
  for (const std::string& line : advice.record)
    report.after.push_back({.text = line, .label = "record:"});
  for (const std::string& note : report.notes)
    report.after.push_back(note_paragraph(note, LabelLook::kPlain));
  return report;
}

// The following turns the sums into advice, by the models of docs/advise.md.

namespace {

constexpr std::uint64_t kLeast = 100;  // gains below a hundredth of the busy time are not reported
// Returns nine tenths of a time that is removed, because a tenth may remain.
constexpr std::uint64_t less_a_tenth(std::uint64_t ns) { return ns - ns / 10; }

std::string ns_text(std::uint64_t ns) { return duration_text(ns, false); }

std::string counted(std::uint64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

// Returns the change that ends waits with this cause.
RemedyId remedy_of_cause(const Cause* cause) {
  if (cause == nullptr) return RemedyId::kNone;
  if (cause->id == "preempted-by-thread" || cause->id == "preempted-by-vcpu" ||
      cause->id == "preempted-by-vmm")
    return RemedyId::kCpus;
  if (cause->id == "cpu-quota") return RemedyId::kQuota;
  if (cause->id == "preempted-by-interrupt") return RemedyId::kInterrupts;
  if (cause->id == "blocked-on-vmm") return RemedyId::kIothread;
  return RemedyId::kNone;
}

// Returns the greatest number of these vCPUs that existed at the same time. The state that a vCPU
// has when the recordings end proves nothing, since the vCPU's own recording may have ended before.
std::size_t most_at_once(const std::set<ThreadId>& vcpus, const Naming& names) {
  std::map<Timestamp, std::ptrdiff_t> changes;
  for (const VcpuTotalsOf& vcpu : names.pipeline.vcpus()) {
    if (!vcpus.contains(vcpu.thread)) continue;
    const VcpuTotals& totals = vcpu.totals;
    const std::uint64_t known = elapsed(totals.begin, totals.end);
    ++changes[totals.begin];
    --changes[Timestamp(totals.begin.ns() + known - std::min(known, totals.open_ns) + 1)];
  }
  std::ptrdiff_t now = 0, most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, now += change);
  return static_cast<std::size_t>(most);
}

// Returns a change that gives each vCPU a CPU. `threads`: the VM's threads that waited; `waited`:
// the number of those of all VMs; `vcpus`: the number of vCPUs that share CPUs.
std::string cpus_change(const std::set<ThreadId>& threads, std::size_t waited, std::size_t vcpus,
                        const Naming& names) {
  const std::uint32_t cpus = host_cpus(names.timeline);
  if (cpus != 0 && cpus < vcpus)
    return fmt::format("{} vCPUs share {}: fewer vCPUs, or more CPUs", vcpus, counted(cpus, "CPU"));
  if (cpus != 0 && cpus <= waited)
    return fmt::format("more CPUs, or less beside the VM ({} for {} and the other threads)",
                       counted(cpus, "CPU"), counted(waited, "vCPU"));
  std::string change(remedy_of(RemedyId::kCpus).change);
  if (threads.size() > 4) return change;
  std::string tids;
  for (const ThreadId thread : threads)
    tids += fmt::format("{}{}", tids.empty() ? "" : ", ", tid_of(thread));
  return change.replace(change.find("TID"), 3, fmt::format("TID (of {})", tids));
}

// Returns "; most of it: X"; if X is at most half, "; the largest part, 40.0%: X".
std::string largest_text(const std::map<std::string, std::uint64_t>& by, std::uint64_t all) {
  const auto most = std::ranges::max_element(by, {}, [](const auto& one) { return one.second; });
  if (most == by.end()) return {};
  if (most->second * 2 > all) return "; most of it: " + most->first;
  return fmt::format("; the largest part, {}: {}", percent_text(most->second, all), most->first);
}

}  // namespace

struct AdviceSink::Found {
  const Naming& names;
  Advice advice{};
  std::uint64_t busy = 0;
  std::uint64_t whole = 0;  // the recording's time
  std::uint64_t unknown_waits = 0, longest_unknown = 0;
  std::string unknown_text{};  // describes the longest unknown wait

  [[nodiscard]] bool enough(std::uint64_t ns) const { return ns != 0 && ns >= busy / kLeast; }
  // Adds a row if the gain may be large enough. The row has no figure if the gain may also be too
  // small, or is not known within a factor of two. `thread`: one of the VM; 0: all VMs.
  void add(ThreadId thread, RemedyId id, const Gain& gain, std::uint64_t count, std::uint64_t cost,
           std::string rests_on, std::string change = {}, const std::string& cause = {}) {
    if (!enough(gain.high == 0 ? cost : gain.high)) return;
    AdviceRow row;
    row.id = id;
    row.cause = cause.empty() ? std::string(remedy_of(id).cause) : cause;
    if (thread != ThreadId{}) {
      row.vm = names.vcpus.vm_id(thread);
      row.vm_name = names.vcpus.vm_name(thread);
      if (names.vcpus.several_vms()) row.cause += ", of VM " + names.vcpus.vm(thread);
    }
    row.change = change.empty() ? remedy_of(id).change : change;
    row.rests_on = std::move(rests_on);
    row.count = count;
    row.cost_ns = cost;
    row.busy_ns = busy;
    row.quota_possible = gain.quota_possible;
    if (!gain.quota_possible && enough(gain.low) && gain.high <= 2 * gain.low) {
      row.gain_low_ns = gain.low;
      row.gain_high_ns = std::min(gain.high, busy);
    }
    (row.gain_high_ns != 0 ? advice.rows : advice.not_validated).push_back(std::move(row));
  }
  void add_of_host(const Vm& vm, AdviceRow row);
};

AdviceSink::Gain AdviceSink::gain_of(RemedyId id, const Sum& sum) const {
  // The way out of the guest and back is recorded as guest time. The guest's shortest runs hardly
  // contain more than that way, so its length is estimated as the 10th percentile of the runs.
  const std::uint64_t way = runs_.percentile(100).value_or(0) * sum.exits;
  const std::uint64_t all = sum.cost + std::min(std::max(sum.between, way), sum.cost * 4 / 5);
  const AdviceModel model = remedy_of(id).model;
  if (model == AdviceModel::kRemoved) return {less_a_tenth(sum.cost), all};
  if (model == AdviceModel::kBatched)
    return {less_a_tenth(sum.cost - sum.cost / sum.exits * sum.rows), all};
  if (model == AdviceModel::kPages)
    return {less_a_tenth(sum.cost - sum.first_cost - sum.doubtful_cost),
            sum.cost + std::min(way, sum.cost * 4 / 5)};
  return {};
}

// Returns what the gain is computed from. `user`: the VMM; empty: its time is not known separately.
std::string AdviceSink::rests_on(RemedyId id, const Sum& sum, std::string_view user) const {
  std::string text = fmt::format("{} ({}, {}), {}", counted(sum.exits, "exit"),
                                 events::kvm_exit.name, events::kvm_entry.name, ns_text(sum.cost));
  if (!user.empty() && sum.beyond_kernel != 0)
    text += fmt::format(", of which {} in {} or asleep", ns_text(sum.beyond_kernel), user);
  const AdviceModel model = remedy_of(id).model;
  if (model == AdviceModel::kBatched) text += fmt::format(", in {}", counted(sum.rows, "row"));
  if (model == AdviceModel::kPages)
    text += fmt::format(", {} the first of 2 MiB", sum.first_faults);
  return text;
}

std::string AdviceSink::change_of(RemedyId id, const Sum& sum) {
  if (id != RemedyId::kDebugPort || sum.ports == 0) return std::string(remedy_of(id).change);
  std::string ports;
  for (std::size_t i = 0; i < kDebugPorts.size(); ++i) {
    if ((sum.ports >> i & 1u) != 0)
      ports += fmt::format("{}port {:#x}", ports.empty() ? "" : " and ", kDebugPorts[i]);
  }
  if (!sum.answered) return fmt::format("guest: no output to {}, where no device answers", ports);
  return "QEMU: leave out -device isa-debugcon, or the output of the guest to " + ports;
}

void AdviceSink::find_exits(Found& found) const {
  // The sums by VM, with one of the VM's threads.
  std::map<std::string, std::pair<ThreadId, std::array<Sum, kRemedies>>> vms;
  for (const auto& entry : threads_.entries()) {
    auto& vm = vms[found.names.vcpus.vm_id(entry.thread)];
    vm.first = entry.thread;
    for (std::size_t i = 0; i < kRemedies; ++i) vm.second[i].add(entry.state.sums[i]);
  }
  const bool knows_user = found.names.pipeline.exits().model().userspace_exits;
  for (const auto& [name, vm] : vms) {
    for (std::size_t i = 0; i < kRemedies; ++i) {
      const auto id = static_cast<RemedyId>(i);
      const Sum& sum = vm.second[i];
      if (sum.exits == 0) continue;
      // A larger page avoids none of the faults that are each the first in their range.
      const bool pages = id == RemedyId::kPages;
      if (pages && sum.first_faults == sum.exits) continue;
      const Gain gain = gain_of(id, sum);
      if (gain.high == 0 && remedy_of(id).model != AdviceModel::kNone) continue;
      const std::string_view vmm = found.names.vmm(vm.first);
      std::string cause;
      if (pages && sum.first_faults * 2 <= sum.exits && sum.doubtful_cost * 2 <= sum.cost)
        cause = fmt::format("{}, 4 KiB at a time", remedy_of(id).cause);
      found.add(vm.first, id, gain, sum.exits, sum.cost,
                rests_on(id, sum, knows_user ? vmm : std::string_view()),
                change_for_vmm(change_of(id, sum), vmm), cause);
    }
  }
}

void AdviceSink::find_waits(Found& found) const {
  struct Sums {
    ThreadId thread{};
    std::uint64_t ns = 0, count = 0, more = 0;
    std::uint64_t own = 0;  // time in which another vCPU of the VM ran
    std::uint64_t by_vcpus = 0, by_threads = 0;
    std::map<std::string, std::uint64_t> by;
    // Threads that waited; `sharing`: also the vCPUs that they waited for.
    std::set<ThreadId> threads, sharing;
    bool quota_possible = false;
  };
  std::map<std::pair<std::string, RemedyId>, Sums> sums;
  std::set<ThreadId> waited;  // for other threads on their CPUs
  // By VM: the waits that its quota may have caused, or the threads that ran.
  std::map<std::string, Sums> doubtful;
  for (const auto& [waiting, wait] : waits_) {
    if (waiting.culprit.kind == CulpritKind::kUnknown) {
      found.unknown_waits += wait.ns;
      if (wait.ns > std::exchange(found.longest_unknown, std::max(found.longest_unknown, wait.ns)))
        found.unknown_text = found.names.text(waiting.culprit);
    }
    Circumstances around = circumstances_of(waiting.culprit, waiting.thread, found.names);
    around.iothread_device |= waiting.iothread;
    around.throttled = !found.names.processes.quotas.of(waiting.thread).empty();
    const std::string vm = found.names.vcpus.vm_id(waiting.thread);
    const RemedyId id = remedy_of_cause(cause_of(waiting.part, waiting.culprit, around));
    if (around.throttled && waiting.part == Part::kPreempted && id == RemedyId::kNone) {
      Sums& sum = doubtful[vm];
      sum.thread = waiting.thread;
      sum.ns += wait.ns;
      if (waiting.culprit.is_thread() && !around.recorder) {
        sum.by_threads += wait.ns;
        sum.count += wait.count;
        sum.by[found.names.text(waiting.culprit)] += wait.ns;
      }
    }
    if (id == RemedyId::kNone) continue;
    Sums& sum = sums[{vm, id}];
    sum.thread = waiting.thread;
    sum.threads.insert(waiting.thread);
    if (id == RemedyId::kCpus) waited.insert(waiting.thread);
    sum.quota_possible |=
        id == RemedyId::kCpus && !no_quota_ && !found.names.processes.quotas.knows(waiting.thread);
    sum.sharing.insert(waiting.thread);
    sum.ns += wait.ns;
    sum.count += wait.count;
    sum.more += wait.switches;
    sum.by[found.names.text(waiting.culprit)] += wait.ns;
    if (!waiting.culprit.is_thread() || !found.names.is_vcpu(waiting.culprit.thread)) continue;
    sum.by_vcpus += wait.ns;
    sum.sharing.insert(waiting.culprit.thread);
    if (found.names.vcpus.vm_id(waiting.culprit.thread) == vm) sum.own += wait.ns;
  }
  const bool wakeups = found.names.pipeline.exits().model().wakeups;
  for (const auto& [key, sum] : sums) {
    const RemedyId id = key.second;
    const std::uint64_t doubt = id == RemedyId::kQuota ? doubtful[key.first].ns : 0;
    const bool cpus = id == RemedyId::kCpus, shared = sum.by_vcpus * 2 > sum.ns;
    const std::string change =
        cpus ? cpus_change(sum.threads, waited.size(),
                           shared ? most_at_once(sum.sharing, found.names) : 0, found.names)
             : change_for_vmm(std::string(remedy_of(id).change), found.names.vmm(sum.thread));
    found.add(sum.thread, id,
              remedy_of(id).model == AdviceModel::kNone
                  ? Gain{}
                  : Gain{less_a_tenth(sum.ns), sum.ns + sum.more + doubt, sum.quota_possible},
              sum.count, sum.ns,
              fmt::format("{} ({}{}), {}{}", counted(sum.count, "wait"), events::sched_switch.name,
                          id == RemedyId::kQuota ? ", cpu.stat"
                          : wakeups              ? ", wake-ups"
                                                 : "",
                          ns_text(sum.ns), largest_text(sum.by, sum.ns)),
              change, cpus && sum.own * 2 > sum.ns ? "vCPUs of one VM that share a CPU" : "");
  }
  for (const auto& [vm, sum] : doubtful) {
    if (sums.contains({vm, RemedyId::kQuota})) continue;
    std::uint64_t throttled = 0;
    for (const CpuQuota* quota : found.names.processes.quotas.of(sum.thread))
      throttled += quota->throttled_ns;
    found.add(sum.thread, RemedyId::kQuota, {}, sum.count, std::min(sum.by_threads, throttled),
              fmt::format("{} ({}, cpu.stat), {}{}", counted(sum.count, "wait"),
                          events::sched_switch.name, ns_text(sum.by_threads),
                          largest_text(sum.by, sum.by_threads)),
              fmt::format("{}; or {}", remedy_of(RemedyId::kQuota).change,
                          remedy_of(RemedyId::kCpus).change),
              "a CPU quota, or other threads on the vCPUs' CPUs");
  }
}

// Finds the smallest halt_poll_ns that saves nine tenths of what the best value saves. Above a
// millisecond, polling costs the host more than it saves the guest.
void AdviceSink::find_halts(Found& found) const {
  struct Sums {
    std::array<HaltReplays::Row, HaltReplays::kSettings.size()> zeroing{}, halving{};
    std::uint64_t late = 0, halts = 0, waited = 0;
  };
  std::optional<Sums> all;
  for (const auto& entry : threads_.entries()) {
    const HaltTracker::Thread* thread = found.names.pipeline.halts()->find(entry.thread);
    if (thread == nullptr || thread->replays.halts() == 0) continue;
    if (!all) all.emplace();
    all->late += thread->replays.late_ns();
    all->halts += thread->replays.halts();
    all->waited += entry.state.sleeps_waited;
    for (const bool halves : {false, true}) {
      const HaltReplays::Rows rows = thread->replays.rows(halves);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        HaltReplays::Row& to = (halves ? all->halving : all->zeroing)[i];
        to.halt_poll_ns = rows[i].halt_poll_ns;
        to.won += rows[i].won;
        to.late_ns += rows[i].late_ns;
        to.polling_ns += rows[i].polling_ns;
      }
    }
  }
  if (!all) return;
  const auto saved = [&](const HaltReplays::Row& row) {
    return all->late - std::min(all->late, row.late_ns);
  };
  std::size_t best = 0;
  std::uint64_t most = 0;
  constexpr std::uint64_t kLongest = 1'000'000;
  for (const HaltReplays::Row& row : all->zeroing)
    if (row.halt_poll_ns <= kLongest) most = std::max(most, saved(row));
  while (best + 1 < all->zeroing.size() && saved(all->zeroing[best]) < most - most / 10) ++best;
  const HaltReplays::Row &zeroing = all->zeroing[best], &halving = all->halving[best];
  // After a poll, too, the kernel takes a while to run the vCPU; only the wait for the CPU is
  // certainly avoided.
  const auto wait_of = [&](std::uint64_t ns) {
    return std::min(
        ns, static_cast<std::uint64_t>(static_cast<double>(all->waited) * static_cast<double>(ns) /
                                       static_cast<double>(all->late)));
  };
  if (all->late == 0) return;
  const Gain gain{less_a_tenth(wait_of(std::min(saved(zeroing), saved(halving)))),
                  std::max(saved(zeroing), saved(halving))};
  if (gain.low == 0) return;
  found.add({}, RemedyId::kPolling, gain, all->halts, all->late,
            fmt::format("{} ({}, {}), {} from what ended them to the vCPU's running; {} of polling",
                        counted(all->halts, "halt"), events::kvm_vcpu_wakeup.name,
                        events::sched_waking.name, ns_text(all->late), ns_text(zeroing.polling_ns)),
            fmt::format("echo {} > /sys/module/kvm/parameters/halt_poll_ns", zeroing.halt_poll_ns));
}

// Adds what can be saved of the host's CPU time, unless that is less than a thousandth of a CPU.
void AdviceSink::Found::add_of_host(const Vm& vm, AdviceRow row) {
  constexpr std::uint64_t kLeastOfCpu = 1000;
  if (row.host_high_ns == 0 || row.cost_ns < whole / kLeastOfCpu) return;
  row.interval_ns = whole;
  row.vm = vm.id();
  row.vm_name = vm.given;
  const Remedy& remedy = remedy_of(row.id);
  if (row.cause.empty()) row.cause = fmt::format("{}, of VM {}", remedy.cause, vm.text());
  row.change = remedy.change;
  advice.of_host.push_back(std::move(row));
}

// Finds the interrupt line that a main loop of QEMU sets most, if the loop never raises it or if it
// is a timer's. The vCPUs' exits to QEMU may be to that timer.
void AdviceSink::find_line(Found& found, const HostThread& loop) const {
  constexpr std::array<std::uint64_t, 3> kTimerLines = {0, 2, 8};  // of a PC
  const HostRuns::Thread& ran = loop.runs.state;
  const HostRuns::Lines lines = found.names.pipeline.host_runs()->lines(loop.runs.thread);
  const auto most = std::ranges::max_element(lines, {}, [](const auto& one) { return one.second; });
  if (most == lines.end()) return;
  const std::uint64_t line = most->first / 2;
  const bool raises = lines.contains(2 * line + 1);
  if (raises && std::ranges::find(kTimerLines, line) == kTimerLines.end()) return;
  // If only a part of the recording is read, the line may be raised in the rest. If some vCPUs of
  // the VM are left out, the cost of all its exits to QEMU is not known.
  const auto is_left_out = [&](const VcpuThread& vcpu) {
    return found.names.vcpus.vm_id(vcpu.thread) == loop.vm->id() &&
           !found.names.pipeline.counts(vcpu.thread);
  };
  if (raises ? std::ranges::any_of(found.names.threads, is_left_out)
             : found.names.pipeline.is_window())
    return;
  AdviceRow row;
  row.id = raises ? RemedyId::kTimerLine : RemedyId::kTicks;
  row.cause = fmt::format("interrupt line {}, which the main loop of VM {} {}", line,
                          loop.vm->text(), raises ? "raises for a timer" : "sets and never raises");
  row.rests_on = fmt::format("{} ({}), {} of the {} that it ran ({})",
                             counted(most->second, "time"), events::kvm_set_irq.name,
                             ns_text(ran.line_ns), ns_text(ran.ran_ns), events::sched_switch.name);
  row.count = most->second;
  row.cost_ns = ran.line_ns;
  row.host_low_ns = raises ? 0 : less_a_tenth(ran.line_ns);
  // The main loop is assumed to slow down other work on its CPU by up to a twentieth of its time.
  row.host_high_ns = ran.ran_ns + ran.ran_ns / 20;
  for (const auto& vcpu : threads_.entries())
    if (raises && found.names.vcpus.vm_id(vcpu.thread) == loop.vm->id())
      row.host_high_ns += vcpu.state.to_user;
  found.add_of_host(*loop.vm, std::move(row));
}

// Finds what the host's CPUs do for each VM that they may not have to do.
void AdviceSink::find_of_host(Found& found) const {
  const Naming& names = found.names;
  const Pipeline& pipeline = names.pipeline;
  if (!pipeline.exits().model().sched_switch) return;
  // If events of the host were lost, threads may have run more than is known, and lines may have
  // been raised: then no figure is a maximum, and nothing is known to have "never" happened.
  for (std::size_t i = 0; i < names.timeline.size(); ++i)
    if (pipeline.is_hosts_kernel(i) && names.timeline.source(i).counters().gaps != 0) return;
  const RecordedInterval interval = recorded_interval(names.timeline, pipeline);
  found.whole = elapsed(interval.begin, interval.end);
  struct OfVm {
    std::uint64_t count = 0, low = 0, high = 0;
  };
  std::map<const Vm*, std::array<OfVm, 3>> vms;  // polls, wake-ups, IOThreads
  std::set<const Vm*> polled;  // VMs with halts that a poll ended: what woke the vCPU is unknown
  for (const HostThread& thread :
       host_threads(names, pipeline.host_runs()->threads(pipeline.end()))) {
    if (thread.lacks_runs || !thread.vm->known || thread.vm->inferred) continue;
    const ThreadId id = thread.runs.thread;
    const std::uint64_t ran = thread.runs.state.ran_ns;
    auto& [polls, wakeups, iothreads] = vms[thread.vm];
    if (thread.role == HostRole::kMainLoop) find_line(found, thread);
    if (thread.role == HostRole::kIoThread) {
      ++iothreads.count;
      iothreads.high += ran;
    }
    const HaltTracker::Thread* halts = pipeline.halts()->find(id);
    const Thread* vcpu = threads_.find(id);
    if (thread.role != HostRole::kVcpu || halts == nullptr || vcpu == nullptr) continue;
    if (halts->halts_unknown == 0) {
      polls.count += halts->polls_won.count() + halts->slept.count();
      polls.low += halts->polling_ns - std::min(halts->polling_ns, halts->polls_won.total());
      polls.high += halts->polling_ns + halts->polling_at_most_ns;
    }
    if (halts->polls_won.count() != 0) polled.insert(thread.vm);
    wakeups.count += vcpu->timers;
    wakeups.high += std::min(ran, vcpu->timers_ns);
  }
  const auto add = [&found](const Vm* vm, RemedyId id, const OfVm& sum, std::string rests_on) {
    AdviceRow row;
    row.id = id;
    row.rests_on = std::move(rests_on);
    row.count = sum.count;
    row.cost_ns = row.host_high_ns = sum.high;
    const std::uint64_t low = less_a_tenth(sum.low);
    if (sum.high <= 2 * low) row.host_low_ns = low;
    found.add_of_host(*vm, std::move(row));
  };
  for (const auto& [vm, sums] : vms) {
    const auto& [polls, wakeups, iothreads] = sums;
    add(vm, RemedyId::kHaltPolls, polls,
        fmt::format("{} ({}), {} of polls, {} of it before sleeps", counted(polls.count, "halt"),
                    events::kvm_vcpu_wakeup.name, ns_text(polls.high), ns_text(polls.low)));
    if (!polled.contains(vm))
      add(vm, RemedyId::kWakeups, wakeups,
          fmt::format("{} ({}), {} to the next halt", counted(wakeups.count, "halt"),
                      events::hrtimer_expire_entry.name, ns_text(wakeups.high)));
    add(vm, RemedyId::kIothreadPolls, iothreads,
        fmt::format("{}, {} ({}); whether they polled is not recorded",
                    counted(iothreads.count, "IOThread"), ns_text(iothreads.high),
                    events::sched_switch.name));
  }
  std::ranges::stable_sort(found.advice.of_host, std::greater(), [](const AdviceRow& row) {
    return std::pair(row.host_low_ns != 0, row.host_high_ns);
  });
}

void AdviceSink::find_missing(Found& found) const {
  std::vector<std::string>& record = found.advice.record;
  const ExitModel& model = found.names.pipeline.exits().model();
  if (!model.userspace_exits)
    record.push_back(
        fmt::format("{}: which exits go to QEMU", events::kvm_userspace_exit.full_name));
  if (!model.sched_switch)
    record.emplace_back("trapline record --sched: who takes the CPU from the vCPUs");
  std::uint64_t unnamed = 0, faults = 0;
  for (const auto& entry : threads_.entries()) {
    unnamed += entry.state.unnamed;
    faults += entry.state.unnamed_faults;
  }
  if (found.enough(unnamed))
    record.push_back(fmt::format(
        "QEMU's events (-trace 'memory_region_ops_*'): the devices whose exits cost {} of the busy "
        "time",
        percent_text(unnamed, found.busy)));
  if (found.enough(faults))
    record.push_back(fmt::format("{}: the addresses of faults that cost {} of the busy time",
                                 events::kvm_page_fault.full_name,
                                 percent_text(faults, found.busy)));
  if (model.sched_switch && found.enough(found.unknown_waits))
    record.push_back(fmt::format("who kept the vCPUs waiting for {} of the busy time: {}",
                                 percent_text(found.unknown_waits, found.busy),
                                 found.unknown_text));
}

Advice AdviceSink::advice(const Naming& names) const {
  Found found{names};
  std::size_t vcpus = 0;
  std::uint64_t not_seen = 0;
  for (const VcpuTotalsOf& vcpu : names.pipeline.vcpus()) {
    if (!names.pipeline.counts(vcpu.thread)) continue;
    found.advice.busy.add(vcpu.totals);
    not_seen += vcpu.totals.not_seen_ns;
    ++vcpus;
  }
  const Overhead& busy = found.advice.busy;
  found.busy = busy.busy_ns();
  std::vector<std::string>& finding = found.advice.finding;
  if (found.busy == 0) {
    finding.emplace_back(not_seen == 0 ? "No vCPU was busy: there is nothing to gain."
                                       : "The vCPUs were not seen: no gain can be told.");
    return std::move(found.advice);
  }
  find_exits(found);
  find_waits(found);
  find_halts(found);
  find_of_host(found);
  find_missing(found);
  std::vector<AdviceRow>& rows = found.advice.rows;
  std::ranges::stable_sort(rows, std::greater(), &AdviceRow::gain_high_ns);
  std::ranges::stable_sort(found.advice.not_validated, std::greater(), &AdviceRow::cost_ns);
  const ExitModel& model = names.pipeline.exits().model();
  const bool at_least = costs_at_least(names);
  finding.push_back(fmt::format(
      "The {} busy for {}: the guest ran for {} of it, {}{}, and {}.",
      vcpus == 1 ? "vCPU was" : "vCPUs were", ns_text(found.busy),
      percent_text(busy.guest_ns, found.busy), exits_cost(model, busy, at_least),
      percent_text(busy.exit_ns, found.busy),
      model.sched_switch && (model.wakeups || busy.not_run_ns != 0)
          ? fmt::format("for {}{} {} waited for a CPU",
                        at_least || !model.wakeups ? "at least " : "",
                        percent_text(busy.not_run_ns, found.busy), vcpus == 1 ? "it" : "they")
          : fmt::format("whether a vCPU waited for a CPU{} was not recorded",
                        model.sched_switch ? " after a sleep" : "")));
  if (const auto& rows_of_host = found.advice.of_host;
      !rows_of_host.empty() && rows_of_host.front().host_low_ns != 0) {
    const AdviceRow& most = rows_of_host.front();
    finding.push_back(fmt::format("{} can be saved: {}.", host_text(most), most.cause));
  }
  if (rows.empty()) {
    finding.emplace_back(found.advice.not_validated.empty()
                             ? found.advice.record.empty()
                                   ? "No change that is known here would gain 1% of the busy time."
                                   : "No gain of 1% of the busy time can be told from these "
                                     "events: see what to record."
                             : "No gain of 1% of the busy time can be told; what these cost may "
                               "be worth a trial.");
    return std::move(found.advice);
  }
  const AdviceRow& first = rows.front();
  std::string most = fmt::format("{}, {} to {} of the busy time", first.cause,
                                 percent_text(first.gain_low_ns, found.busy),
                                 percent_text(first.gain_high_ns, found.busy));
  const std::vector<AdviceRow>& untold = found.advice.not_validated;
  if (!untold.empty() && untold.front().cost_ns > first.gain_high_ns) {
    finding.push_back(
        fmt::format("Of the gains that can be told this is the largest: {}. More may be gained of "
                    "what costs {}: {}.",
                    most, percent_text(untold.front().cost_ns, found.busy), untold.front().cause));
  } else {
    finding.push_back(fmt::format("Most can be gained here: {}.", most));
  }
  finding.emplace_back("Each gain assumes only that change. Gains overlap; don't add them.");
  return std::move(found.advice);
}

}  // namespace trapline
