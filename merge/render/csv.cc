#include "merge/render/halt_costs.h"
#include "merge/render/kernel.h"
#include "merge/render/phases.h"
#include "merge/render/render.h"
#include "merge/render/tables.h"
#include "merge/render/waits.h"
#include "merge/report/tables.h"

namespace trapline {

void print_csv(const Report& report, std::ostream& out) {
  const Table groups = group_table(report.rows, report);
  print_csv_header(groups, out);
  print_csv_rows(groups, out);
  print_waits_csv(report, out);
  if (report.halt_costs) print_halt_costs_csv(*report.halt_costs, out);
  print_kernel_csv(report, out);
  if (report.phases) print_phases_csv(report, *report.phases, out);
}

}  // namespace trapline
