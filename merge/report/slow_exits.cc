#include "merge/report/slow_exits.h"

#include <algorithm>
#include <tuple>

#include "backend_ftrace/base/text.h"
#include "merge/pass/naming.h"
#include "merge/report/common_columns.h"
#include "merge/report/tables.h"

namespace trapline {

ExitRow exit_row(const ExitSpan& span, NameId function, const Naming& naming) {
  const Source& source = naming.timeline.source(span.source);
  ExitRow row{span,
              naming.vcpus.vcpu(span.thread, true),
              name_or_dash(naming.names, function),
              printable(reason_text(source, span.reason)),
              detail_text(span.detail),
              name_or_dash(naming.names, span.device),
              "-"};
  if (span.preempted_by != ThreadId{}) {
    row.preempted_by = fmt::format("{}-{}", printable(source.comm(span.preempted_by)),
                                   static_cast<std::int32_t>(span.preempted_by));
  }
  return row;
}

void SlowExits::add(const ExitSpan& span, NameId function) {
  const auto faster_last = [](const SlowExit& a, const SlowExit& b) {
    return a.span.total() > b.span.total();
  };
  ++added_;
  if (kept_.size() >= most_) {
    if (kept_.front().span.total() >= span.total()) return;
    std::pop_heap(kept_.begin(), kept_.end(), faster_last);
    kept_.pop_back();
  }
  kept_.push_back({span, function, added_});
  kept_.back().span.intervals = {};  // they end with the call
  kept_.back().span.handlers = {};
  std::push_heap(kept_.begin(), kept_.end(), faster_last);
}

void SlowExits::report(Report& report, const Naming& naming) const {
  if (!at_least_ns_) return;
  report.slower_than_ns = *at_least_ns_;
  report.slow_left_out = added_ - kept_.size();
  std::vector<SlowExit> kept = kept_;
  std::sort(kept.begin(), kept.end(), [](const SlowExit& a, const SlowExit& b) {
    return std::tuple(a.span.start, a.order) < std::tuple(b.span.start, b.order);
  });
  auto& rows = report.slow_exits.emplace();
  for (const SlowExit& slow : kept) rows.push_back(exit_row(slow.span, slow.function, naming));
}

Table slow_exit_table(std::span<const ExitRow> rows, const States& known, bool vmm_events) {
  using Row = ExitRow;
  TableOf<Row> table(rows, &Row::vcpu);
  table.add({"start_ns"}, [](const Row& row) { return row.span.start.ns(); });
  table.add({"total_ns"}, [](const Row& row) { return row.span.total(); });
  add_parts(table, known, kNoParts, 0, [](const Row& row) {
    return PartsOf{row.span.parts, row.span.total(), row.span.halt};
  });
  table.add({"vcpu"}, [](const Row& row) { return number_or_null(row.span.vcpu, kNoVcpu); });
  table.add({"tid"}, [](const Row& row) { return static_cast<std::int32_t>(row.span.thread); });
  table.add({"reason"}, &Row::reason);
  table.add({"detail"}, [](const Row& row) { return name_or_null(row.detail); });
  table.add({"device"}, [](const Row& row) { return name_or_null(row.device); });
  table.add({"function"}, [](const Row& row) { return name_or_null(row.function); });
  table.add({"preempted_by"}, [](const Row& row) { return name_or_null(row.preempted_by); });
  table.add({"qemu_events"}, [vmm_events](const Row& row) {
    return vmm_events ? to_value(row.span.vmm_events) : CellValue();
  });
  table.add({"injected_vector"}, [](const Row& row) {
    return row.span.injected == kNoVector ? CellValue(Absent()) : to_value(row.span.injected);
  });
  return table;
}

}  // namespace trapline
