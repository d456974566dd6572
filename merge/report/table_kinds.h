// The optional tables of a report, one file each. From this list come the options of `report`, what
// it refuses, the commands that it suggests, the page and the completion.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/analyze/span_sink.h"
#include "merge/model/exit_span.h"
#include "merge/pass/naming.h"
#include "merge/report/table.h"

namespace trapline {

struct ReportData;
struct ReportOptions;

// Collects the rows of its tables, and makes the tables at the end.
class TableSink : public SpanSink {
 public:
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kNone; }
  // Sets the data that the finding and the notes need.
  virtual void fill(ReportData& /*data*/, const Naming& /*names*/) const {}
  // Returns the tables, which own their rows and borrow nothing.
  [[nodiscard]] virtual std::vector<Table> tables(const ReportData& data,
                                                  const Naming& names) const = 0;
};

// When the page shows a table; kNever: the page has a view of its own for it.
enum class InPage : std::uint8_t { kNever, kIfRequested, kAlways };

// Makes a sink that depends on no option.
template <typename Sink>
[[nodiscard]] Result<std::unique_ptr<TableSink>> make_sink(const ReportOptions& /*options*/,
                                                           const std::string& /*value*/) {
  return std::make_unique<Sink>();
}

struct TableKind {
  std::string_view option{};    // "--irq"
  std::string_view argument{};  // the option's argument, "TIME"; empty: it is a flag
  std::string_view help{};
  bool of_exits = true;     // calls of guest functions have no such table
  bool in_finding = false;  // the sink runs, asked for or not, if switches are recorded
  InPage in_page = InPage::kIfRequested;
  // Makes the sink; an Error (kUsage) if the option's value is invalid.
  Result<std::unique_ptr<TableSink>> (*make)(const ReportOptions& options,
                                             const std::string& value) = nullptr;
  // If most of the exits' time went to the part `of`: what the table shows more; empty: nothing.
  std::string_view answers{};
  Part of{};
};

// Each kind is defined in its table's file.
extern const TableKind kSlowExitTable, kIrqTable, kHaltTables, kPhaseTable, kKernelTable,
    kWaitTables, kStealTable, kHostCpuTable, kFaultTable, kGuestFunctionTable;

// Returns the kinds in the order of a report.
[[nodiscard]] std::span<const TableKind> table_kinds();
// Makes the selected tables. An Error (kUsage) if an option's value is invalid.
[[nodiscard]] Result<std::vector<std::unique_ptr<TableSink>>> make_tables(
    const ReportOptions& options);

}  // namespace trapline
