#include "merge/explain/stalls.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/model/kernel_events.h"
#include "merge/pass/first_look.h"
#include "merge/report/causes.h"
#include "merge/report/common_columns.h"
#include "merge/report/head.h"
#include "merge/report/notes.h"
#include "merge/report/slow_exits.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr StallLimit kLimits[] = {
    {200'000'000, "a TCP peer sends again what was not acknowledged",
     "Linux, include/net/tcp.h, TCP_RTO_MIN"},
    {kSecond, "a clocksource watchdog finds its interval too long",
     "Linux, kernel/time/clocksource.c, WATCHDOG_INTERVAL"},
    {20 * kSecond, "the watchdog reports a soft lockup",
     "Linux, Documentation/admin-guide/lockup-watchdogs.rst"},
    {21 * kSecond, "RCU reports a stalled CPU", "Linux, Documentation/RCU/stallwarn.rst"},
};

std::string_view key_of(StallCause cause) {
  constexpr std::string_view kKeys[] = {"not-known", "guest", "kernel", "user",   "preempted",
                                        "blocked",   "page",  "signal", "paused", "halted"};
  return kKeys[static_cast<std::size_t>(cause)];
}

// Memory work in which a stall's time was spent: its key, and words for the end of a clause.
struct Phase {
  std::string_view key, words;
};
const Phase& phase_of(MemoryWork work) {
  static constexpr Phase kPhases[] = {
      {"", ""},
      {"reclaim", " (in direct reclaim of memory)"},
      {"compaction", " (in compaction of memory)"},
      {"collapse", " (pages were collapsed into a huge one)"},
      {"mmu-notifier", " (page faults were in vain while memory was unmapped)"},
      {"dirty-logging", " (for the log of dirty pages)"}};
  return kPhases[static_cast<std::size_t>(work)];
}

// Returns ", until woken by X"; empty if X is not known.
std::string ended_by(const StallShare& share, const Naming& names) {
  if (share.culprit.kind == CulpritKind::kUnknown) return {};
  return ", until woken by " + names.text(share.culprit);
}

// Returns a cause as a clause of a sentence. `open`: the stall lasts until the recording's end.
std::string cause_text(const StallShare& share, bool open, const Naming& names, ThreadId vcpu) {
  const ExitModel& model = names.pipeline.exits().model();
  const bool lasts = open && share.culprit == Culprit();
  const std::string worked = model.sched_switch
                                 ? "worked for it"
                                 : fmt::format("worked for it or it waited: unknown (record {})",
                                               events::sched_switch.full_name);
  switch (share.cause) {
    case StallCause::kGuest:
      return "the guest ran";
    case StallCause::kKernel:
      return std::string("the host's kernel ") +
             (model.userspace_exits ? "" : fmt::format("or {} ", names.vmm(vcpu))) + worked +
             (model.sched_switch && phase_of(share.work).words.empty()
                  ? ", or for interrupts on its CPU"
                  : "");
    case StallCause::kUser:
      return fmt::format("{} {}", names.vmm(vcpu), worked);
    case StallCause::kPreempted:
      return "it was ready to run, but " +
             (lasts ? "had not run by the end" : names.ran_instead(share.culprit));
    case StallCause::kBlocked:
      return "it slept" + (lasts ? ", and nothing had woken it by the end"
                                 : ' ' + names.slept_for(share.culprit, share.root));
    case StallCause::kPage:
      return "it waited for a page (userfaultfd) from " + names.text(share.culprit, share.root);
    case StallCause::kSignal:
      return "a signal or a tracer had stopped it" + ended_by(share, names);
    case StallCause::kVmm:
      return std::string(names.vmm(vcpu)) + " had stopped it" + ended_by(share, names);
    case StallCause::kHalted:
      return "the guest had halted it";
    case StallCause::kNotKnown:
      break;
  }
  return "its state is not known";
}

bool has_culprit(StallCause cause) {
  return cause >= StallCause::kPreempted && cause != StallCause::kHalted;
}

// Returns the limits that the stall exceeds. While QEMU has stopped the guest, the guest's clock
// stands still, so only a peer notices the stall.
std::vector<StallLimit> limits_of(const Stall& stall) {
  const bool clock_stops = stall.shares.front().cause == StallCause::kVmm;
  std::vector<StallLimit> limits;
  for (const StallLimit& limit : kLimits) {
    if (stall.length() >= limit.ns && (limit.ns == kLimits[0].ns || !clock_stops))
      limits.push_back(limit);
  }
  return limits;
}

std::string exit_of(const Stall& stall, const Naming& names) {
  if (!stall.longest) return {};
  const bool is_known = stall.fault.cause != FaultCause::kNotKnown;
  return exit_text(exit_row(*stall.longest, kNoName, names),
                   is_known ? ": " + names.text(stall.fault) : std::string());
}

std::string name_of(const Stall& stall, const Naming& names) {
  if (stall.vcpus == 0) return names.vcpus.vcpu(stall.thread, true);
  const std::string vm =
      names.vcpus.several_vms() ? "VM " + names.vcpus.vm(stall.thread) + ", " : std::string();
  // Not "all": a vCPU that is not in the recording may run its guest.
  return vm + (stall.not_halted == stall.vcpus
                   ? fmt::format("{} vCPUs", stall.vcpus)
                   : fmt::format("{} of {} vCPUs", stall.not_halted, stall.vcpus));
}

StallRow row_of(const Stall& stall, const Naming& names) {
  StallRow row;
  row.stall = stall;
  row.name = name_of(stall, names);
  row.vm = names.vcpus.vm_id(stall.thread);
  row.vm_name = names.vcpus.vm_name(stall.thread);
  row.vcpu = stall.vcpus == 0 ? names.vcpus.number(stall.thread) : kNoVcpu;
  row.exit = exit_of(stall, names);
  row.knows_user = names.pipeline.exits().model().userspace_exits;
  row.knows_guest = names.pipeline.exits().known_states()[static_cast<std::size_t>(State::kGuest)];
  for (const StallShare& share : stall.shares) {
    if (share.cause == StallCause::kGuest) row.guest_ns += share.ns;
    row.causes.push_back(
        {key_of(share.cause),
         has_culprit(share.cause) ? names.text(share.culprit, share.root) : std::string(),
         phase_of(share.work).key,
         cause_text(share, stall.open, names, stall.thread).append(phase_of(share.work).words),
         share.ns});
  }
  row.limits = limits_of(stall);
  return row;
}

bool longer(const Stall& a, const Stall& b) {
  return a.length() != b.length() ? a.length() > b.length() : a.begin < b.begin;
}

// Returns whether a vCPU's `stall` has nine tenths of its time inside `whole`, a stall of its VM.
bool lies_in(const Stall& stall, const Stall& whole, const Naming& names) {
  if (stall.vcpus != 0 || whole.vcpus == 0) return false;
  const std::uint64_t both =
      elapsed(std::max(stall.begin, whole.begin), std::min(stall.end, whole.end));
  return both * 10 >= stall.length() * 9 &&
         names.vcpus.vm_id(stall.thread) == names.vcpus.vm_id(whole.thread);
}

}  // namespace

void LongestStalls::stall(const Stall& stall, const Pipeline&) {
  kept_.push_back(stall);
  if (kept_.size() < 2 * kMost) return;
  std::ranges::nth_element(kept_, kept_.begin() + kMost, longer);
  for (std::size_t i = kMost; i < kept_.size(); ++i) left_out_ns_ += kept_[i].length();
  left_out_ += kept_.size() - kMost;
  kept_.resize(kMost);
}

StallsFound LongestStalls::found(const Naming& names, std::size_t top) const {
  StallsFound found;
  std::vector<Stall> stalls = kept_;
  std::vector<Stall> whole;
  std::ranges::copy_if(kept_, std::back_inserter(whole),
                       [](const Stall& stall) { return stall.vcpus != 0; });
  std::erase_if(stalls, [&](const Stall& stall) {
    return std::ranges::any_of(whole, [&](const Stall& one) { return lies_in(stall, one, names); });
  });
  std::ranges::stable_sort(stalls, longer);
  found.count = left_out_ + stalls.size();
  found.total_ns = left_out_ns_;
  for (const Stall& stall : stalls) found.total_ns += stall.length();
  if (top != 0 && stalls.size() > top) stalls.resize(top);
  for (const Stall& stall : stalls) found.rows.push_back(row_of(stall, names));
  return found;
}

Result<StallsFound> run_stalls(const PassOptions& what, std::size_t top, const Progress& progress) {
  LongestStalls sink;
  auto pass = Pass::read(what, {&sink}, progress);
  if (!pass) return tl::unexpected(std::move(pass).error());
  if (auto found = pass->check_times(); !found) return tl::unexpected(std::move(found).error());
  if (!pass->pipeline().exits().model().durations())
    return tl::unexpected(no_durations(pass->timeline()));
  const Naming names = pass->naming();
  StallsFound found = sink.found(names, top);
  found.begun = begin_report("stalls", *pass);
  found.at_least_ns = what.stalls_ns;
  if (const std::string losses = losses_note(*pass); !losses.empty())
    found.begun.notes.push_back(losses + "; a stall ends at a loss");
  if (const auto& log = names.pipeline.stalls()->dirty_log(); log.exits != 0) {
    found.begun.notes.push_back(fmt::format(
        "dirty logging took the host's kernel {} in {} exit{}, in stalls and between them",
        duration_text(log.kernel_ns, false), grouped(log.exits), log.exits == 1 ? "" : "s"));
  }
  std::set<const CpuQuota*> quotas;
  for (const StallRow& row : found.rows)
    for (const CpuQuota* quota : names.processes.quotas.of(row.stall.thread))
      if (quotas.insert(quota).second) found.begun.notes.push_back(quota_sentence(*quota));
  if (names.pipeline.exits().model().from_userspace_exit)
    found.begun.notes.push_back(fmt::format(
        "{} was not recorded: only stalls in user space can be found", events::kvm_exit.name));
  for (const auto& [thread, totals] : names.pipeline.vcpus()) {
    if (totals.open == State::kHalted && totals.open_ns >= what.stalls_ns &&
        names.pipeline.counts(thread))
      found.open_halts.push_back({names.vcpus.vcpu(thread, true), totals.open_ns});
  }
  return found;
}

namespace {

std::string limits_text(const StallRow& row) {
  std::string text;
  for (const StallLimit& limit : row.limits) {
    text += fmt::format("{}{} after {} ({})", text.empty() ? "A guest may notice: " : "; ",
                        limit.what, duration_text(limit.ns, false), limit.source);
  }
  return text.empty() ? text : text + '.';
}

std::string sentence_of(const StallRow& row) {
  const Stall& stall = row.stall;
  std::string text =
      fmt::format("{} made no progress for {}{}", row.name, duration_text(stall.length(), false),
                  stall.open ? ", and had not ended by the end" : "");
  if (stall.vcpus != 0 && stall.not_halted != stall.vcpus)
    text += ", and no other recorded vCPU ran the guest meanwhile";
  text += '.';
  if (stall.faults * 2 > stall.exits) {
    text += fmt::format(" The same page fault (0x{:x}) came {} times at the same instruction.",
                        stall.fault_address, stall.faults);
  } else if (stall.exits > 1) {
    text += fmt::format(" These are {} exits, between which the guest ran for {}.", stall.exits,
                        duration_text(row.guest_ns, false));
  }
  if (!row.exit.empty())
    text += fmt::format(" {} exit was {}.", stall.exits > 1 ? "The longest" : "The", row.exit);
  std::uint64_t explained = 0;
  constexpr std::size_t kMostTold = 3;
  for (std::size_t i = 0; i < std::min(kMostTold, row.causes.size()); ++i) {
    const StallRow::Cause& cause = row.causes[i];
    if (i != 0 && cause.ns * 20 < stall.length()) break;
    explained += cause.ns;
    const double share = 100 * static_cast<double>(cause.ns) / static_cast<double>(stall.length());
    text += fmt::format("{} {} ({:.1f}%) {}",
                        i != 0             ? "; for"
                        : stall.vcpus != 0 ? " The vCPU that was stopped longest: for"
                                           : " For",
                        duration_text(cause.ns, false), share, cause.text);
  }
  if (explained * 20 < stall.length() * 19)
    text += fmt::format("; other causes took {}", duration_text(stall.length() - explained, false));
  return text + '.';
}

// Returns the command that explains the longest exit of the longest stall that has an exit; no
// command can explain a stall without one.
std::vector<NextStep> next_steps(const StallsFound& found) {
  const auto row = std::ranges::find_if(
      found.rows, [](const StallRow& one) { return one.stall.longest.has_value(); });
  if (row == found.rows.end() || found.recording.empty()) return {};
  std::string command = fmt::format("explain {} --around {}", found.recording,
                                    seconds_text(row->stall.longest->start.ns()));
  // With several VMs, the name includes the VM.
  if (row->name.starts_with("VM ") && !row->vm.empty()) command += " --vm " + shell_text({row->vm});
  if (row->vcpu != kNoVcpu) command += fmt::format(" --vcpu {}", row->vcpu);
  const std::string answers =
      row == found.rows.begin()
          ? "why its longest exit took so long"
          : fmt::format("why the longest exit of the stall of {} took so long",
                        duration_text(row->stall.length(), false));
  return {{std::move(command), answers}};
}

Table cause_table(const StallRow& row) {
  using Cause = StallRow::Cause;
  TableOf<Cause> table({.key = "causes"}, row.causes, &Cause::text);
  table.add({"cause"}, &Cause::key);
  table.add({"culprit"}, [](const Cause& cause) { return text_or_null(cause.culprit); });
  table.add({"phase"}, [](const Cause& cause) { return text_or_null(cause.phase); });
  table.add({"text"}, &Cause::text);
  table.add({"ns"}, &Cause::ns);
  return table;
}

// Returns what a guest may notice.
Table limit_table(const StallRow& row) {
  TableOf<StallLimit> table({.key = "noticed"}, row.limits, &StallLimit::what);
  table.add({"what"}, &StallLimit::what);
  table.add({"after_ns"}, &StallLimit::ns);
  table.add({"source"}, &StallLimit::source);
  return table;
}

std::vector<Paragraph> sentences_above(const StallsFound& found) {
  const std::string least = duration_text(found.at_least_ns, false);
  if (found.rows.empty())
    return {{.text = fmt::format("No stall of {} or more.", least), .verbatim = true}};
  const StallRow& longest = found.rows.front();
  std::vector<Paragraph> sentences = {{.text = sentence_of(longest)}};
  if (std::string limits = limits_text(longest); !limits.empty())
    sentences.push_back({.text = std::move(limits)});
  sentences.push_back(
      {.text = fmt::format("\n{} {} of {} and more, {} together", grouped(found.count),
                           found.count == 1 ? "stall" : "stalls", least,
                           duration_text(found.total_ns, false)),
       .verbatim = true});
  return sentences;
}

}  // namespace

Table stall_table(const StallsFound& found) {
  using Row = StallRow;
  enum DropOrder : std::uint8_t { kExits = 1, kExit };
  TableOf<Row> table({.key = "stalls", .left_out = found.count - found.rows.size(), .csv = true},
                     found.rows, &Row::name);
  table.facts = {
      {"min_ns", found.at_least_ns}, {"count", found.count}, {"total_ns", found.total_ns}};
  table.children = [all = table.all()](std::size_t row) {
    return std::vector<Table>{cause_table(all[row]), limit_table(all[row])};
  };
  table.before = sentences_above(found);
  if (table.rows != 0) table.titles = {"stall"};
  table.add({"begin_ns"}, [](const Row& row) { return row.stall.begin.ns(); });
  table.add({.title = "at", .unit = Unit::kText, .csv = false, .json = false}, [](const Row& row) {
    // Prints full precision for --around: a time rounded down would be before the exit.
    return time_text(row.stall.begin.ns(), false);
  });
  table.add({"ns", "time", Unit::kDuration}, [](const Row& row) { return row.stall.length(); });
  table.add({.key = "open", .unit = Unit::kWord}, [](const Row& row) { return row.stall.open; });
  table.add({.key = "vm", .unit = Unit::kWord},
            [](const Row& row) { return text_or_null(row.vm); });
  table.add({.key = "vm_name"}, [](const Row& row) { return text_or_null(row.vm_name); });
  table.add({"vcpu"}, [](const Row& row) { return number_or_null(row.vcpu, kNoVcpu); });
  table.add({"tid"}, [](const Row& row) { return tid_of(row.stall.thread); });
  table.add({"vcpus"}, [](const Row& row) {
    return row.stall.vcpus == 0 ? CellValue() : to_value(row.stall.vcpus);
  });
  table.add({"vcpus_stopped"}, [](const Row& row) {
    return row.stall.vcpus == 0 ? CellValue() : to_value(row.stall.not_halted);
  });
  table.add({.key = "exits", .title = "exits", .drop_order = kExits}, [](const Row& row) {
    return row.stall.exits == 0 ? CellValue() : to_value(row.stall.exits);
  });
  table.add({"guest_ns"},
            [](const Row& row) { return row.knows_guest ? to_value(row.guest_ns) : CellValue(); });
  table.add({.key = "exit", .title = "longest exit", .unit = Unit::kText, .drop_order = kExit},
            [](const Row& row) { return text_or_null(row.exit); });
  table.add({.key = "same_faults"}, [](const Row& row) {
    return row.stall.faults == 0 ? CellValue() : to_value(row.stall.faults);
  });
  table.add({.key = "cause", .unit = Unit::kWord, .json = false},
            [](const Row& row) { return row.causes.front().key; });
  table.add({.key = "culprit", .json = false},
            [](const Row& row) { return text_or_null(row.causes.front().culprit); });
  table.add({.key = "phase", .unit = Unit::kWord, .json = false},
            [](const Row& row) { return text_or_null(std::string(row.causes.front().phase)); });
  table.add({.title = "largest cause", .unit = Unit::kSubject, .json = false}, [](const Row& row) {
    const StallRow::Cause& cause = row.causes.front();
    const bool doubtful = !row.knows_user && cause.key == key_of(StallCause::kKernel);
    std::string who(doubtful ? kKernelOrUser : cause.key);
    if (!cause.culprit.empty()) who += ": " + cause.culprit;
    if (!cause.phase.empty()) who += fmt::format(" ({})", cause.phase);
    return Share{.ns = cause.ns, .whole = row.stall.length(), .of = std::move(who)};
  });
  table.add({.key = "cause_ns", .json = false},
            [](const Row& row) { return row.causes.front().ns; });
  table.add({.key = "finding", .csv = false}, sentence_of);
  return table;
}

Report make_report(const StallsFound& found) {
  Report report = found.begun;
  report.tables.push_back(stall_table(found));
  for (const OpenHalt& halt : found.open_halts)
    report.notes.push_back(
        fmt::format("{} was halted at the end, for {}: idle, as far as the events tell", halt.vcpu,
                    duration_text(halt.ns, false)));
  for (const std::string& note : report.notes)
    report.after.push_back(note_paragraph(note, LabelLook::kPlain));
  report.next = next_steps(found);
  return report;
}

}  // namespace trapline
