#include "merge/explain/stalls.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/stall_tracker.h"
#include "merge/model/kernel_events.h"
#include "merge/pass/first_look.h"
#include "merge/pass/naming.h"
#include "merge/report/common_columns.h"
#include "merge/report/notes.h"
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
  constexpr std::string_view kKeys[] = {"guest", "kernel", "user",   "preempted", "blocked",
                                        "page",  "signal", "paused", "halted"};
  return kKeys[static_cast<std::size_t>(cause)];
}

std::string_view phase_of(MemoryWork work) {
  constexpr std::string_view kKeys[] = {"",         "reclaim",      "compaction",
                                        "collapse", "mmu-notifier", "dirty-logging"};
  return kKeys[static_cast<std::size_t>(work)];
}

// ", until X let it go on".
std::string ended_by(const StallShare& share, const Naming& names) {
  if (share.culprit.kind == CulpritKind::kUnknown) return {};
  return ", until woken by " + names.text(share.culprit);
}

// `open`: the stall lasts at the end.
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
             (model.userspace_exits ? "" : fmt::format("or {} ", names.vmm(vcpu))) + worked;
    case StallCause::kUser:
      return fmt::format("{} {}", names.vmm(vcpu), worked);
    case StallCause::kPreempted:
      return "it was ready to run, and " +
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
  }
  return {};
}

std::string text_of(const StallShare& share, bool open, const Naming& names, ThreadId vcpu) {
  constexpr std::string_view kWork[] = {"",
                                        " (in direct reclaim of memory)",
                                        " (in compaction of memory)",
                                        " (pages were collapsed into a huge one)",
                                        " (page faults were in vain while memory was unmapped)",
                                        " (for the log of dirty pages)"};
  return cause_text(share, open, names, vcpu) +
         std::string(kWork[static_cast<std::size_t>(share.work)]);
}

bool has_culprit(StallCause cause) {
  return cause != StallCause::kGuest && cause != StallCause::kKernel &&
         cause != StallCause::kUser && cause != StallCause::kHalted;
}

// While QEMU has stopped it a guest's clock stands still, so that it sees no time go by.
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
  const ExitSpan& exit = *stall.longest;
  std::string text = printable(reason_text(names.timeline.source(exit.source), exit.reason));
  const std::string detail = detail_text(exit.detail);
  if (detail != "-") text += ", " + detail;
  if (exit.device != kNoName) text += ", " + name_or_dash(names.names, exit.device);
  return text;
}

std::string name_of(const Stall& stall, const Naming& names) {
  if (stall.vcpus == 0) return names.vcpus.vcpu(stall.thread, true);
  const std::string vm =
      names.vcpus.several_vms() ? "VM " + names.vcpus.vm(stall.thread) + ", " : std::string();
  return vm + (stall.not_halted == stall.vcpus
                   ? fmt::format("all {} vCPUs", stall.vcpus)
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
         phase_of(share.work), text_of(share, stall.open, names, stall.thread), share.ns});
  }
  row.limits = limits_of(stall);
  return row;
}

bool longer(const Stall& a, const Stall& b) {
  return a.length() != b.length() ? a.length() > b.length() : a.begin < b.begin;
}

// Nine tenths of it.
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
  std::ranges::sort(whole, {}, &Stall::begin);
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
  if (!pass->pipeline().exits().model().durations()) {
    return tl::unexpected(no_durations(pass->timeline()));
  }
  const Naming names = pass->naming();
  StallsFound found = sink.found(names, top);
  found.at_least_ns = what.stalls_ns;
  found.notes = notes_of(*pass);
  if (const std::string losses = losses_note(pass->timeline()); !losses.empty())
    found.notes.push_back(losses + "; a stall ends at a loss");
  if (const auto& log = names.pipeline.stalls()->dirty_log(); log.exits != 0) {
    found.notes.push_back(fmt::format(
        "dirty logging took the host's kernel {} in {} exit{}, in stalls and between "
        "them",
        duration_text(log.kernel_ns, false), grouped(log.exits), log.exits == 1 ? "" : "s"));
  }
  for (const auto& [thread, totals] : names.pipeline.vcpus()) {
    if (totals.open == State::kHalted && totals.open_ns >= what.stalls_ns &&
        names.pipeline.counts(thread))
      found.open_halts.push_back({names.vcpus.vcpu(thread, true), totals.open_ns});
  }
  return found;
}

Table stall_table(std::span<const StallRow> rows) {
  using Row = StallRow;
  enum Goes : std::uint8_t { kExits = 1, kExit };
  TableOf<Row> table(rows, &Row::name);
  table.add({"begin_ns"}, [](const Row& row) { return row.stall.begin.ns(); });
  table.add({.title = "at", .unit = Unit::kText, .csv = false, .json = false}, [](const Row& row) {
    // To the nanosecond: rounded down it would be before the exit, for --around.
    return time_text(row.stall.begin.ns(), false);
  });
  table.add({"ns", "time", Unit::kDuration}, [](const Row& row) { return row.stall.length(); });
  table.add({.key = "open", .unit = Unit::kWord}, [](const Row& row) { return row.stall.open; });
  table.add({.key = "vm", .unit = Unit::kWord},
            [](const Row& row) { return text_or_null(row.vm); });
  table.add({.key = "vm_name"}, [](const Row& row) { return text_or_null(row.vm_name); });
  table.add({"vcpu"}, [](const Row& row) { return number_or_null(row.vcpu, kNoVcpu); });
  table.add({"tid"}, [](const Row& row) { return static_cast<std::int32_t>(row.stall.thread); });
  table.add({"vcpus"}, [](const Row& row) {
    return row.stall.vcpus == 0 ? CellValue() : to_value(row.stall.vcpus);
  });
  table.add({"vcpus_stopped"}, [](const Row& row) {
    return row.stall.vcpus == 0 ? CellValue() : to_value(row.stall.not_halted);
  });
  table.add({.key = "exits", .title = "exits", .goes = kExits}, [](const Row& row) {
    return row.stall.exits == 0 ? CellValue() : to_value(row.stall.exits);
  });
  table.add({"guest_ns"},
            [](const Row& row) { return row.knows_guest ? to_value(row.guest_ns) : CellValue(); });
  table.add({.key = "exit", .title = "longest exit", .unit = Unit::kText, .goes = kExit},
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
  return table;
}

}  // namespace trapline
