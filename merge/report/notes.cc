#include "merge/report/notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/vmm/vmms.h"
#include "merge/model/kernel_events.h"
#include "merge/model/processes.h"
#include "merge/report/common_columns.h"
#include "merge/report/units.h"

namespace trapline {

namespace {

std::vector<std::string> notes_of_calls(const ReportData& report,
                                        const Capabilities& capabilities) {
  std::vector<std::string> notes = {
      "no VM exits were recorded: the rows are calls of guest functions, and their times are own "
      "times, without the functions that they called"};
  if (!capabilities.sched_switch) {
    notes.push_back(fmt::format("{} was not recorded: preempted and blocked time is in the guest's",
                                events::sched_switch.name));
  } else if (!capabilities.wakeups) {
    notes.emplace_back(
        "no wake-ups were recorded: a sleeping vCPU counts as blocked until it runs");
  }
  if (!capabilities.markers) {
    notes.push_back(
        "no events of QEMU were recorded: the time of its devices is in the guest's; record with "
        "-trace 'memory_region_ops_*'");
  } else {
    notes.push_back(
        "devices: at least the time between QEMU's events of an access; \"devices at most\" is all "
        "that may be a device's, up to the guest's next record, and lies in the guest's share");
  }
  if (report.cycles) notes.push_back("times are cycles of the TSC");
  return notes;
}

// Notes exits that access a port, an address or a register, if no event shows which.
void note_details(const ReportData& report, std::vector<std::string>& notes) {
  constexpr std::string_view kAccesses[] = {
      "EPT_MISCONFIG", "IO_INSTRUCTION", "MSR_READ", "MSR_WRITE", "io", "msr"};
  if (report.by != "reason" || !report.durations() || report.rows_left_out != 0) return;
  const auto is_told = [](const GroupRow& row) { return !row.largest.empty(); };
  const auto is_access = [&](const GroupRow& row) {
    return row.total.count() != 0 && std::ranges::find(kAccesses, row.key) != std::end(kAccesses);
  };
  if (std::ranges::any_of(report.rows, is_told) || std::ranges::none_of(report.rows, is_access))
    return;
  notes.push_back(fmt::format(
      "what the exits were about was not recorded: {}, {} and {} tell ports, addresses and "
      "registers",
      events::kvm_pio.full_name, events::kvm_mmio.full_name, events::kvm_msr.full_name));
}

}  // namespace

bool lacks_regions(const ReportData& report) {
  return report.durations() && report.knows(State::kUser) &&
         report.total.parts[static_cast<std::size_t>(Part::kUser)] != 0 &&
         std::ranges::none_of(report.vmm_events, [](const VmmEventRow& row) {
           const VmmEventMeaning* meaning = vmm_event_meaning(row.name);
           return meaning != nullptr && (meaning->kind == VmmEventKind::kRegionRead ||
                                         meaning->kind == VmmEventKind::kRegionWrite);
         });
}

namespace {

// Notes each VM whose exits all have rip 0.
void note_hidden(const ReportData& report, std::vector<std::string>& notes) {
  struct Seen {
    std::uint64_t hidden = 0;
    bool shown = false;
  };
  std::map<std::string, Seen> vms;
  for (const VcpuRow& row : report.vcpus) {
    Seen& vm = vms[vm_text(row.vm, row.vm_name)];
    vm.hidden += row.totals.rip_hidden;
    vm.shown = vm.shown || row.totals.rip_shown;
  }
  for (const auto& [vm, seen] : vms) {
    if (seen.hidden == 0 || seen.shown) continue;
    notes.push_back(fmt::format(
        "VM {} is taken for a confidential guest (SEV-ES, SNP, TDX): the rip of all of its {} "
        "exits is 0; no function is looked up for them",
        vm, grouped(seen.hidden)));
  }
}

std::string late_switches_note(Timestamp from, bool cycles) {
  return fmt::format(
      "{} came first at {}: before that exits are counted, and the vCPUs' time is not seen",
      events::sched_switch.name, cycles ? grouped(from.ns()) : seconds_text(from.ns()));
}

constexpr std::string_view kCyclesNote =
    "times are cycles of the TSC: the recording does not tell its frequency; give --tsc-khz";

constexpr std::string_view kUserEnds = "{}: {}, which trapline record records, makes it exact";

// Returns notes on how the model divides times.
std::vector<std::string> notes_of(const ExitModel& model) {
  std::vector<std::string> notes;
  const std::string_view ioctl = events::sys_enter_ioctl.full_name;
  if (model.from_userspace_exit) {
    notes.push_back(model.durations()
                        ? fmt::format("no {} was recorded: exits are those to user space, and "
                                      "their time is the time in user space",
                                      events::kvm_exit.name)
                        : fmt::format("neither {} nor an end of user time was recorded: exits to "
                                      "user space are counted, without durations; enable {}",
                                      events::kvm_exit.name,
                                      model.from_vmm ? "kvm_vcpu_ioctl of the VMM" : ioctl));
  }
  if (model.durations() && model.user_end == UserEnd::kReload && model.userspace_exits) {
    notes.push_back(fmt::format(kUserEnds,
                                "user also contains KVM's work up to its next event (a few µs an "
                                "exit, more on an emulated host)",
                                ioctl));
  }
  if (model.user_end == UserEnd::kEntry && model.userspace_exits)
    notes.push_back(fmt::format(
        kUserEnds, fmt::format("user also contains KVM's work up to {}", events::kvm_entry.name),
        ioctl));
  if (!model.userspace_exits) {
    notes.push_back(fmt::format("{} was not recorded: user time is in \"{}\"",
                                events::kvm_userspace_exit.name, kKernelOrUser));
  }
  if (model.durations() && !model.sched_switch) {
    notes.push_back(
        fmt::format("{} was not recorded: time in which a vCPU waited for a CPU, or for something "
                    "else, counts as guest, kernel, user or halted time",
                    events::sched_switch.name));
  } else if (model.durations() && !model.wakeups) {
    notes.push_back(fmt::format(
        "no wake-ups were recorded: a vCPU's wait for a CPU after a sleep counts as blocked or "
        "halted; record {} (--sched)",
        events::sched_waking.full_name));
  }
  return notes;
}

// Returns whether the table of this option names a VM even where the recording has only one.
bool names_vms(std::string_view option) {
  return option == "--waits" || option == "--steal" || option == "--host-cpu";
}

}  // namespace

void note_sources(const Timeline& timeline, std::vector<std::string>& notes) {
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const Source& source = timeline.source(i);
    for (const auto& [what, value] : source.facts())
      if (what == "note")
        notes.push_back(fmt::format("{}: {}", printable(source.info().path), value));
      else if (what == kDamagedFact)
        notes.push_back(fmt::format("{}: damaged: {}", printable(source.info().path), value));
    if (const std::uint64_t lost = source.counters().lost_unplaced; lost != 0)
      notes.push_back(fmt::format("{}: {}; exits that they cut are not left out",
                                  printable(source.info().path), unplaced_text(lost)));
  }
}

void note_declarations(const Input& input, const Names& names, std::vector<std::string>& notes) {
  if (input.trace_events.empty()) return;
  bool has_events = false;
  for (std::size_t id = Names::kOther + 1; id < names.size(); ++id) {
    const std::string_view name = names[static_cast<NameId>(id)];
    if (vmm_event_meaning(name) == nullptr) continue;
    if (input.declared.may_declare(name)) return;
    has_events = true;
  }
  if (!has_events) return;
  notes.push_back(
      fmt::format("{} declares none of QEMU's events in the recording; give --trace-events the "
                  "trace-events-all of the QEMU that was recorded",
                  printable(input.trace_events)));
}

void note_unseen_cpus(const Pipeline& pipeline, std::vector<std::string>& notes) {
  const RecordedSwitches& switches = pipeline.threads().switches();
  if (!switches.lacks_cpu(pipeline.end())) return;
  notes.push_back(
      fmt::format("threads went to CPU {} of the host, of which nothing is in the recording: what "
                  "ran there is not seen",
                  fmt::join(switches.unseen(pipeline.end()), ", ")));
}

std::vector<std::string> notes_of(const PassEnd& pass) {
  std::vector<std::string> notes = pass.input().notes;
  note_sources(pass.timeline(), notes);
  note_declarations(pass.input(), pass.pipeline().names(), notes);
  const ExitModel& model = pass.pipeline().exits().model();
  for (std::string& note : notes_of(model)) notes.push_back(std::move(note));
  if (model.cycles) notes.emplace_back(kCyclesNote);
  if (const auto from = pass.pipeline().exits().switches_from())
    notes.push_back(late_switches_note(*from, model.cycles));
  note_unseen_cpus(pass.pipeline(), notes);
  return notes;
}

std::vector<std::string> notes_of(const ReportData& report, const Capabilities& capabilities,
                                  bool several_vms) {
  std::vector<std::string> notes;
  if (report.rows_of == RowsOf::kCalls) return notes_of_calls(report, capabilities);
  if (!has_exits(capabilities)) {
    notes.push_back("no VM exits were recorded: only QEMU's events are counted");
    return notes;
  }
  notes = notes_of(report.model);
  if (lacks_regions(report))
    notes.emplace_back(
        "memory_region_ops_* of QEMU was not recorded: devices have no names; trapline record "
        "records it (of a QEMU that runs: --domain, --qmp; trapline help devices)");
  if (report.lacks_entries && !report.lacks_times())
    notes.push_back(fmt::format("{} was not recorded: exits have no end; record {} as well",
                                events::kvm_entry.name, events::kvm_entry.full_name));
  else if (report.knows(State::kGuest) && !report.vcpus.empty() && !report.saw_halts)
    notes.push_back(no_halt_note(report.is_window, report.counters.gaps != 0));
  if (report.switches_from)
    notes.push_back(late_switches_note(*report.switches_from, report.cycles));
  if (report.isa == kIsaArm64 && report.durations())
    notes.push_back(fmt::format(
        "the time of the host's interrupt handlers is in the column guest: an arm64 host runs them "
        "before {}, and the row IRQ begins after one has ended{}",
        events::kvm_exit.name,
        report.longest_handler.ns != 0
            ? ""
            : "; after trapline record --sched --irq, the report's last lines show the longest"));
  if (report.by.find("nested") != report.by.npos && !report.saw_nested && !report.is_window &&
      report.isa != kIsaArm64 && report.isa != kIsaRiscv)
    notes.push_back(
        fmt::format("no {} was recorded: exits of a guest's own guests, if it has any, are under "
                    "\"guest\"",
                    events::kvm_nested_vmexit.full_name));
  note_details(report, notes);
  note_hidden(report, notes);
  if (report.wait_counters && report.wait_counters->cpu_assumed != 0) {
    notes.push_back(
        fmt::format("no event tells to which CPU a woken vCPU went: the one that it ran on next is "
                    "taken; record {}",
                    events::sched_wakeup.full_name));
  }
  if (report.wait_counters && report.wait_counters->cut_by_loss != 0) {
    notes.push_back("waits in which time is not seen are left out: " +
                    grouped(report.wait_counters->cut_by_loss));
  }
  if (report.cycles) notes.emplace_back(kCyclesNote);
  notes.insert(notes.end(), report.table_notes.begin(), report.table_notes.end());
  for (const VcpuRow& row : report.vcpus) {
    if (row.of_several)
      notes.push_back(
          fmt::format("which VM tid {} belonged to is not known: what tells it differs, or "
                      "an id was used again",
                      tid_text(row.thread)));
  }
  const auto inferred = std::ranges::find_if(
      report.vcpus, [](const VcpuRow& row) { return row.vm_inferred && !row.of_several; });
  if (several_vms && inferred != report.vcpus.end()) {
    notes.push_back(
        fmt::format("which vCPU belongs to which VM {}; record {} to know it",
                    inferred->vm.starts_with('~')
                        ? "(~) is inferred from their threads' ids"
                        : "(?) is not known: their numbers are not in the order of their threads",
                    events::task_newtask.full_name));
  } else if (inferred != report.vcpus.end() &&
             std::ranges::any_of(report.tables_asked, names_vms)) {
    notes.push_back(
        fmt::format("VM {}: its process is not known (record {}); the number is its first thread's",
                    inferred->vm, events::task_newtask.full_name));
  }
  return notes;
}

std::string not_recorded_text(const ReportData& report) {
  const ExitModel& model = report.model;
  if (report.rows_of == RowsOf::kCalls || report.vcpus.empty()) return {};
  const std::pair<std::string_view, bool> kMissing[] = {
      {events::kvm_exit.name, model.from_userspace_exit},
      {events::kvm_entry.name, report.lacks_entries && !report.lacks_times()},
      {events::kvm_userspace_exit.name, !model.userspace_exits},
      {events::sched_switch.name, model.durations() && !model.sched_switch},
      {"wake-ups", model.durations() && model.sched_switch && !model.wakeups},
      {"memory_region_ops_*", lacks_regions(report)}};
  const bool no_halt = !report.lacks_entries && report.knows(State::kGuest) && !report.saw_halts;
  const std::string_view where = report.is_window ? "this part of the recording" : "the recording";
  std::string names;
  for (const auto& [name, is_missing] : kMissing)
    if (is_missing) names += (names.empty() ? "" : ", ") + std::string(name);
  if (names.empty())
    return no_halt ? fmt::format("No halt was seen in {} (see the notes)", where) : std::string();
  return fmt::format("Not in {}: {}{} (see the notes)", where, names,
                     no_halt ? "; no halt was seen" : "");
}

std::string no_halt_note(bool is_window, bool has_losses) {
  return fmt::format(
      "no halt {}: the guest was always busy{}, or it idled without an exit (idle=poll, QEMU's "
      "cpu-pm=on); if it idled, the exits' share of its busy time is higher than shown",
      is_window ? "lies in this part of the recording" : "was recorded",
      has_losses ? ", its halts were lost" : "");
}

bool costs_at_least(const Naming& names) {
  if (names.pipeline.exits().saw_whole_halts()) return true;
  std::map<std::string, bool> halts;  // by VM
  for (const VcpuTotalsOf& vcpu : names.pipeline.vcpus())
    if (names.pipeline.counts(vcpu.thread))
      halts[names.vcpus.vm_id(vcpu.thread)] |=
          vcpu.totals.parts[static_cast<std::size_t>(Part::kHalted)] != 0;
  return std::ranges::any_of(halts, [](const auto& vm) { return !vm.second; });
}

std::string_view exits_cost(const ExitModel& model, const Overhead& overhead, bool at_least) {
  if (model.sched_switch && (model.wakeups || overhead.blocked_ns == 0))
    return at_least ? "exits cost at least " : "exits cost ";
  if (!model.sched_switch)
    return at_least ? "exits, with waits for a CPU, took at least "
                    : "exits, with waits for a CPU, took ";
  return at_least ? "exits, and perhaps waits for a CPU after a sleep, took at least "
                  : "exits, and perhaps waits for a CPU after a sleep, took ";
}

LossCounts losses_of(const Timeline& timeline, const Pipeline& pipeline) {
  LossCounts all = pipeline.is_window() ? pipeline.losses() : LossCounts();
  for (std::size_t i = 0; i < timeline.size(); ++i)
    if (!pipeline.is_window() || timeline.source(i).info().role != Role::kHostKernel)
      all.add(timeline.source(i).counters());
  return all;
}

std::string losses_note(const PassEnd& pass) {
  const LossCounts losses = losses_of(pass.timeline(), pass.pipeline());
  return losses.gaps == 0 ? "" : losses_note(losses);
}

namespace {

bool has_no_count(const LossCounts& losses) {
  return losses.lost_events == 0 && losses.gaps_uncounted == losses.gaps;
}

std::string lost_events_text(const LossCounts& losses) {
  if (has_no_count(losses)) return "an unknown number of events";
  return fmt::format("{}{} event{}", losses.gaps_uncounted == 0 ? "" : "at least ",
                     grouped(losses.lost_events), losses.lost_events == 1 ? "" : "s");
}

std::string in_losses_text(const LossCounts& losses, std::string_view of_them) {
  std::string text =
      fmt::format("in {} {}", grouped(losses.gaps), losses.gaps == 1 ? "loss" : "losses");
  if (losses.gaps_uncounted != 0 && !has_no_count(losses))
    text += fmt::format(" ({} {}without a count)", grouped(losses.gaps_uncounted), of_them);
  return text;
}

}  // namespace

std::string losses_text(const LossCounts& losses) {
  return lost_events_text(losses) + ' ' + in_losses_text(losses, "of them ");
}

std::string unplaced_text(std::uint64_t events) {
  return fmt::format("{} lost event{}, by CPUSTAT: no page tells where", grouped(events),
                     events == 1 ? "" : "s");
}

std::string losses_note(const LossCounts& losses) {
  return fmt::format("{} {} lost {}: exits that a loss may have cut are left out",
                     lost_events_text(losses), losses.lost_events == 1 ? "was" : "were",
                     in_losses_text(losses, ""));
}

}  // namespace trapline
