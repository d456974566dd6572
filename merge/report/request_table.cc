#include "merge/report/request_table.h"

#include "backend_ftrace/base/text.h"

namespace trapline {

RequestTable::Row& RequestTable::row(std::size_t spec) {
  if (spec >= rows_.size()) rows_.resize(spec + 1);
  return rows_[spec];
}

void RequestTable::add(const Delivered& delivered) {
  const RequestSpan& request = delivered.request;
  RequestPathRow& path = row(request.spec).path;
  path.to_injection.add(elapsed(request.end, delivered.injected));
  if (request.notified) path.whole.add(elapsed(*request.notified, delivered.injected));
}

void RequestTable::add(const RequestSpan& request) {
  Row& row = this->row(request.spec);
  if (request.notified) row.path.from_notify.add(elapsed(*request.notified, request.start));
  const std::uint64_t total = elapsed(request.start, request.end);
  Histogram& all = row.request.total;
  if (total > all.max() || all.count() == 0) row.request.max_at_ns = request.start.ns();
  all.add(total);
}

void RequestTable::report(Report& report, const RequestSpans& spans,
                          const RequestPath& path) const {
  report.rows_of = RowsOf::kRequests;
  report.counters.requests_restarted = spans.restarted();
  report.counters.requests_end_only = spans.end_without_start();
  report.counters.requests_open = spans.open();
  report.counters.notifies_ambiguous = path.notifies_ambiguous();
  report.counters.interrupts_ambiguous = path.interrupts_ambiguous();
  for (std::size_t spec = 0; spec < rows_.size(); ++spec) {
    if (rows_[spec].request.total.count() == 0) continue;
    Row row = rows_[spec];
    row.request.key = row.path.key = printable(spans.specs()[spec].name());
    row.path.requests = row.request.total.count();
    report.request_paths.push_back(std::move(row.path));
    report.rows.push_back(std::move(row.request));
  }
}

}  // namespace trapline
