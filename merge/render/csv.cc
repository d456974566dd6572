#include "merge/render/render.h"
#include "merge/render/tables.h"
#include "merge/report/tables.h"

namespace trapline {
namespace {

// Those of --waits and --steal, after an empty line, as each table after the first.
void print_waits_csv(const Report& report, std::ostream& out) {
  if (!report.waits && !report.steal) return;
  out << '\n';
  print_csv_header(wait_table({}, {}, -1), out);
  if (report.waits) {
    print_csv_rows(wait_table(report.waits->preempted, "preempted", -1), out);
    print_csv_rows(wait_table(report.waits->blocked, "blocked", -1), out);
  }
  if (!report.steal) return;
  for (const StealRow& row : *report.steal)
    print_csv_rows(wait_table(row.by, "steal", row.tid), out);
}

void print_replays_csv(const std::vector<HaltCostRow>& rows, std::ostream& out) {
  out << '\n';
  print_csv_header(replay_table({}), out);
  for (const HaltCostRow& row : rows)
    if (row.halts != 0) print_csv_rows(replay_table(replay_rows(row)), out);
}

// A row of each phase, then those of its devices and functions.
void print_phases_csv(const Report& report, const std::vector<PhaseRow>& rows, std::ostream& out) {
  out << '\n';
  print_csv_header(phase_table({}, report), out);
  for (const PhaseRow& row : rows) {
    print_csv_rows(phase_table({&row, 1}, report), out);
    print_csv_rows(phase_share_table(share_rows(row, "device", row.devices), report), out);
    print_csv_rows(phase_share_table(share_rows(row, "function", row.functions), report), out);
  }
}

}  // namespace

void print_csv(const Report& report, std::ostream& out) {
  print_csv(group_table(report.rows, report), out);
  print_waits_csv(report, out);
  if (report.halt_costs) print_replays_csv(*report.halt_costs, out);
  if (report.kernel) print_csv(kernel_table(*report.kernel), out << '\n');
  if (report.phases) print_phases_csv(report, report.phases->rows, out);
}

}  // namespace trapline
