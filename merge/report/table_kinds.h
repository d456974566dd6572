// The tables that a report has where they are asked for, one file each: from this list come the
// options of `report`, what it refuses, what it says to ask next, the page and the completion.
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

// Gathers what its tables have, and makes them at the end.
class TableSink : public SpanSink {
 public:
  [[nodiscard]] SpanClass selects() const override { return SpanClass::kNone; }
  // Tells the finding and the notes what they have to know.
  virtual void fill(ReportData& /*data*/, const Naming& /*names*/) const {}
  // They own their rows and borrow nothing.
  [[nodiscard]] virtual std::vector<Table> tables(const ReportData& data,
                                                  const Naming& names) const = 0;
};

// Whether the page has a table: never, for it has a view of its own.
enum class InPage : std::uint8_t { kNever, kAsked, kAlways };

// Makes a sink from the options.
template <typename Sink>
[[nodiscard]] Result<std::unique_ptr<TableSink>> make_sink(const ReportOptions& options,
                                                           const std::string& /*value*/) {
  return std::make_unique<Sink>(options);
}

struct TableKind {
  std::string_view option{};    // "--irq"
  std::string_view argument{};  // of the option, "TIME"; empty: it is a flag
  std::string_view help{};
  bool of_exits = true;  // calls of guest functions have no such table
  InPage in_page = InPage::kAsked;
  // An Error (kUsage) where the option's value is none.
  Result<std::unique_ptr<TableSink>> (*make)(const ReportOptions& options,
                                             const std::string& value) = nullptr;
  // What it tells where most of the exits' time went to this part; empty: nothing more.
  std::string_view (*answers)(Part most) = [](Part) { return std::string_view(); };
};

// Each is defined in the table's file.
extern const TableKind kSlowExitTable, kIrqTable, kHaltTables, kPhaseTable, kKernelTable,
    kWaitTables, kStealTable, kHostCpuTable, kFaultTable, kGuestFunctionTable;

// In the order in which a report has them.
[[nodiscard]] std::span<const TableKind> table_kinds();
// Those that are asked for. An Error (kUsage) where an option's value is none.
[[nodiscard]] Result<std::vector<std::unique_ptr<TableSink>>> make_tables(
    const ReportOptions& options);

}  // namespace trapline
