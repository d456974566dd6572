#include "merge/model/kernel_events.h"
#include "merge/report/tables.h"

namespace trapline {

std::vector<CounterRow> counter_rows(const Report& report) {
  const ReportCounters& counters = report.counters;
  const ExitCounters& exits = counters.exits;
  const std::string_view exit = events::kvm_exit.name, entry = events::kvm_entry.name;
  // One of each vCPU is cut at either edge of a recording.
  const std::uint64_t edges = report.threads;
  std::vector<CounterRow> rows = {
      {"exits", report.lacks_entries ? std::nullopt : std::optional(exits.exits)},
      {"exit_without_entry", exits.exit_without_entry,
       report.model.from_userspace_exit ? "exits to user space whose end was not recorded"
                                        : fmt::format("{} without a {} after it", exit, entry),
       edges},
      {"entry_without_exit", exits.entry_without_exit,
       fmt::format("{} without a {} before it", entry, exit), edges},
      {"closed_by_loss", exits.closed_by_loss},
      {"exits_stopped", exits.exits_stopped,
       "exits left out: their vCPU was paused or went offline in them", edges},
      {"lost_events", counters.lost_events},
      {"gaps", counters.gaps},
      {"gaps_uncounted", counters.gaps_uncounted},
      {"left_out_events", counters.left_out_events, "events left out on purpose, by --snapshot-on"},
      {"left_out_pieces", counters.left_out_pieces,
       "pieces of time that they lay in, on one CPU each"},
      {"qemu_events", exits.vmm_events},
      {"qemu_events_in_exits",
       report.durations() ? std::optional(exits.vmm_events_in_exits) : std::nullopt},
      {"guest_records", counters.guest_records},
      {"user_without_end", exits.user_without_end,
       fmt::format("user intervals that only {} ended", entry)},
      {"clock_went_back", exits.clock_went_back, "events stamped before their thread's last one"},
      {"threads_left_out", exits.threads_left_out,
       "kvm events of threads beyond the most that are followed"},
      {"damaged_events", counters.damaged_events, "events shorter than their format"},
      {"requests_restarted", counters.requests_restarted, "requests begun again before they ended"},
      {"requests_end_only", counters.requests_end_only, "ends of requests that nothing began"},
      {"requests_open", counters.requests_open, "requests that never ended"},
      {"notifies_ambiguous", counters.notifies_ambiguous,
       "notifies of more than one possible exit, left open"},
      {"interrupts_ambiguous", counters.interrupts_ambiguous,
       "interrupts raised in another way than earlier ones, left open"},
      {"calls", counters.calls.calls},
      {"calls_without_return", counters.calls.without_return,
       "calls without their return, counted up to where they ended"},
      {"calls_cut_by_loss", counters.calls.cut_by_loss,
       "calls of which a part is not known: events were lost"},
      {"groups_folded", counters.groups_folded, "exits in [other]: more groups than are kept"}};
  if (counters.bios_ambiguous != 0)
    rows.push_back({"bios_ambiguous", counters.bios_ambiguous,
                    "bios of more than one possible request, left open"});
  return rows;
}

}  // namespace trapline
