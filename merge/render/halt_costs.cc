#include "merge/model/kernel_events.h"
#include "merge/render/report_text.h"

#include <fmt/format.h>

#include <vector>

#include "merge/render/tables.h"
#include "merge/report/tables.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

// What each value of halt_poll_ns means for all vCPUs.
std::vector<ReplayRow> sum_of_replays(const std::vector<HaltCostRow>& costs) {
  std::vector<ReplayRow> sums(HaltReplays::kSettings.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    HaltReplays::Row& sum = sums[i].setting;
    sum.halt_poll_ns = HaltReplays::kSettings[i];
    for (const HaltCostRow& row : costs) {
      sum.won += row.replay[i].won;
      sum.lost += row.replay[i].lost;
      sum.polling_ns += row.replay[i].polling_ns;
      sum.late_ns += row.replay[i].late_ns;
      sums[i].late_ns += row.late_ns;
      sums[i].time_ns += row.time_ns;
    }
  }
  return sums;
}

void print_replay(const Report& report, const std::vector<HaltCostRow>& costs, std::ostream& out,
                  const TextStyle& style) {
  std::uint64_t halts = 0, late = 0, unknown = 0;
  bool halves = false, seen = false;
  for (const HaltCostRow& row : costs) {
    halts += row.halts;
    late += row.late_ns;
    unknown += row.wakes_unknown;
    halves = halves || row.halves;
    seen = seen || row.saw_shrinking;
  }
  if (halts + unknown == 0 || report.cycles) return;
  if (unknown > halts) {
    print_wrapped(fmt::format("What another halt_poll_ns would change cannot be told: of {} {} the "
                              "wake-up is not in the recording ({}).",
                              grouped(unknown), unknown == 1 ? "sleep" : "sleeps",
                              events::sched_waking.full_name),
                  out, style);
    return;
  }
  print_table(replay_table(sum_of_replays(costs)), "halt_poll_ns replayed", false, out, style);
  print_wrapped(
      fmt::format("{} took {} as recorded. The polling interval doubles from 10 µs and {}.",
                  halts == 1 ? "1 halt was replayed; its wake-up"
                             : grouped(halts) + " halts were replayed; their wake-ups",
                  duration_text(late, false),
                  halves ? "is halved"
                  : seen ? "shrinks to 0"
                         : "shrinks to 0 (assumed)"),
      out, style);
  if (unknown == 0) return;
  print_wrapped(fmt::format("{} left out, whose wake-up is not in the recording ({}).",
                            unknown == 1 ? "1 sleep is" : grouped(unknown) + " sleeps are",
                            events::sched_waking.full_name),
                out, style);
}

}  // namespace

void print_halt_costs(const Report& report, const std::vector<HaltCostRow>& rows, std::ostream& out,
                      const TextStyle& style) {
  if (rows.empty()) return;
  print_table(halt_cost_table(report), "Idle", report.cycles, out, style);
  print_replay(report, rows, out, style);
}

}  // namespace trapline
