#include "merge/report/table_kinds.h"

#include "merge/report/options.h"

namespace trapline {

std::span<const TableKind> table_kinds() {
  static const TableKind kAll[] = {kSlowExitTable, kIrqTable,          kHaltTables, kPhaseTable,
                                   kKernelTable,   kWaitTables,        kStealTable, kHostCpuTable,
                                   kFaultTable,    kGuestFunctionTable};
  return kAll;
}

Result<std::vector<std::unique_ptr<TableSink>>> make_tables(const ReportOptions& options) {
  std::vector<std::unique_ptr<TableSink>> tables;
  for (const TableKind& kind : table_kinds()) {
    const auto requested = options.tables.find(kind.option);
    // A recording without exits gets the tables of calls, asked for or not.
    const bool is_there = kind.of_exits ? kind.in_finding && options.switches : options.calls;
    if (requested == options.tables.end() && !is_there) continue;
    auto table = kind.make(options, requested == options.tables.end() ? "" : requested->second);
    if (!table) return tl::unexpected(std::move(table).error());
    tables.push_back(std::move(*table));
  }
  return tables;
}

}  // namespace trapline
