#include "merge/report/halt_cost_report.h"

namespace trapline {

HaltCostRow halt_cost_row(const HaltCosts::Thread& costs) {
  HaltCostRow row;
  row.exits = costs.exits;
  row.halt_exits = costs.halt_exits;
  row.polling_ns = costs.polling_ns + costs.polling_at_most_ns;
  row.halts_bounded = costs.halts_bounded;
  row.halts_unknown = costs.halts_unknown;
  row.halts = costs.replays.halts();
  row.wakes_unknown = costs.wakes_unknown;
  row.late_ns = costs.replays.late_ns();
  row.halves = costs.replays.halves();
  row.saw_shrinking = costs.replays.saw_shrinking();
  row.replay = costs.replays.rows(row.halves);
  return row;
}

}  // namespace trapline
