#include "merge/render/halt_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "backend_ftrace/base/quoted_text.h"
#include "merge/render/units.h"

namespace trapline {
namespace {

std::string name_of(const HaltCostRow& row) {
  return row.vcpu == kNoVcpu ? "vCPU ?" : fmt::format("vCPU {}", row.vcpu);
}

// How idle the guest was, and what KVM spent on polling for it.
void print_idle(const Report& report, const std::vector<HaltCostRow>& rows, std::ostream& out,
                const TextStyle& style) {
  std::vector<std::uint64_t> halted, polling;
  for (const HaltCostRow& row : rows) {
    halted.push_back(row.halted_ns);
    polling.push_back(row.polling_ns);
  }
  const Unit unit = choose_unit(halted, report.cycles), poll = choose_unit(polling, false);
  TextTable table({"Idle", "exits", "halts", "of exits", fmt::format("halted/{}", unit.name),
                   "of time", fmt::format("polled/{}", poll.name), "of time"});
  for (const HaltCostRow& row : rows) {
    const bool known = row.halts + row.wakes_unknown != row.halts_unknown;
    const std::string most = row.halts_bounded == 0 ? "" : "<= ";
    table.add({name_of(row), grouped(row.exits), grouped(row.halt_exits),
               percent_text(row.halt_exits, row.exits), in_unit(row.halted_ns, unit),
               percent_text(row.halted_ns, row.time_ns),
               known ? most + in_unit(row.polling_ns, poll) : "-",
               known && !report.cycles ? most + percent_text(row.polling_ns, row.time_ns) : "-"});
  }
  out << '\n';
  table.print(out, style);
}

std::string setting_text(std::uint64_t ns) {
  if (ns == 0) return "0 (off)";
  return fmt::format("{}{}", ns,
                     ns == 200'000   ? " (default on x86)"
                     : ns == 500'000 ? " (arm64)"
                                     : "");
}

std::string saved_text(std::uint64_t recorded, std::uint64_t replayed, const Unit& unit) {
  if (recorded >= replayed) return in_unit(recorded - replayed, unit);
  return "-" + in_unit(replayed - recorded, unit);
}

// What one value of halt_poll_ns means for all vCPUs.
HaltReplays::Rows sum_of_replays(const std::vector<HaltCostRow>& rows) {
  HaltReplays::Rows sums;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i].halt_poll_ns = HaltReplays::kSettings[i];
    for (const HaltCostRow& row : rows) {
      sums[i].won += row.replay[i].won;
      sums[i].lost += row.replay[i].lost;
      sums[i].polling_ns += row.replay[i].polling_ns;
      sums[i].late_ns += row.replay[i].late_ns;
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
  if (halts == 0 || report.cycles) return;
  const HaltReplays::Rows rows = sum_of_replays(costs);
  std::uint64_t time = 0;
  for (const HaltCostRow& cost : costs) time += cost.time_ns;
  std::vector<std::uint64_t> polling, lates;
  for (const HaltReplays::Row& row : rows) {
    polling.push_back(row.polling_ns);
    lates.push_back(row.late_ns);
  }
  const Unit poll = choose_unit(polling, false), wake = choose_unit(lates, false);
  TextTable table({"halt_poll_ns replayed", "won", "lost", fmt::format("polled/{}", poll.name),
                   "of time", fmt::format("wake-ups/{}", wake.name),
                   fmt::format("saved/{}", wake.name)});
  for (const HaltReplays::Row& row : rows) {
    table.add({setting_text(row.halt_poll_ns), grouped(row.won), grouped(row.lost),
               in_unit(row.polling_ns, poll), percent_text(row.polling_ns, time),
               in_unit(row.late_ns, wake), saved_text(late, row.late_ns, wake)});
  }
  out << '\n';
  table.print(out, style);
  out << fmt::format("{} took {} as recorded. The polling interval doubles from 10 µs and {}.\n",
                     halts == 1 ? "1 halt was replayed; its wake-up"
                                : grouped(halts) + " halts were replayed; their wake-ups",
                     duration_text(late, false),
                     halves ? "is halved"
                     : seen ? "shrinks to 0"
                            : "shrinks to 0 (assumed)");
  if (unknown != 0) {
    out << fmt::format("{} left out, whose wake-up is not in the recording (sched:sched_waking).\n",
                       unknown == 1 ? "1 sleep is" : grouped(unknown) + " sleeps are");
  }
}

}  // namespace

void print_halt_costs(const Report& report, const std::vector<HaltCostRow>& rows, std::ostream& out,
                      const TextStyle& style) {
  if (rows.empty()) return;
  print_idle(report, rows, out, style);
  print_replay(report, rows, out, style);
}

void print_halt_costs_csv(const std::vector<HaltCostRow>& rows, std::ostream& out) {
  out << "\nvm,vcpu,halt_poll_ns,won,lost,polling_ns,late_ns,saved_ns\n";
  for (const HaltCostRow& row : rows) {
    for (const HaltReplays::Row& replay : row.replay) {
      out << fmt::format("{},{},{},{},{},{},{},{}\n", csv_cell(row.vm),
                         row.vcpu == kNoVcpu ? "" : std::to_string(row.vcpu), replay.halt_poll_ns,
                         replay.won, replay.lost, replay.polling_ns, replay.late_ns,
                         static_cast<std::int64_t>(row.late_ns - replay.late_ns));
    }
  }
}

}  // namespace trapline
