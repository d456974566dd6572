#include "merge/report/request_table.h"

#include <utility>

#include "backend_ftrace/base/text.h"

namespace trapline {

RequestTable::RequestTable(const std::vector<RequestSpec>& specs, Names& names,
                           const std::vector<tracetool::Event>& declared)
    : spans_(specs.empty() ? known_requests() : specs, names, declared),
      path_(names, spans_),
      rows_(spans_.specs().size()),
      paths_(spans_.specs().size()) {}

void RequestTable::on(const Event& event, ThreadId process, const QemuEvent* qemu) {
  const auto* marker = std::get_if<Marker>(&event.payload);
  if (marker == nullptr) {
    for (const Delivered& delivered : path_.on(event, process)) {
      const RequestSpan& request = delivered.request;
      RequestPathRow& row = paths_[request.spec];
      row.to_injection.add(elapsed(request.end, delivered.injected));
      if (request.notified) row.whole.add(elapsed(*request.notified, delivered.injected));
    }
  } else if (qemu != nullptr) {
    if (const auto* request = path_.on_marker(event, *marker, qemu->name, process)) take(*request);
  }
}

void RequestTable::take(const RequestSpan& request) {
  if (request.notified) {
    paths_[request.spec].from_notify.add(elapsed(*request.notified, request.start));
  }
  GroupRow& row = rows_[request.spec];
  const std::uint64_t total = elapsed(request.start, request.end);
  if (total > row.total.max() || row.total.count() == 0) row.max_at_ns = request.start.ns();
  row.total.add(total);
}

void RequestTable::report(Report& report) {
  report.requests = true;
  report.counters.requests_restarted = spans_.restarted();
  report.counters.requests_end_only = spans_.end_without_start();
  report.counters.requests_open = spans_.open();
  report.counters.notifies_ambiguous = path_.notifies_ambiguous();
  report.counters.interrupts_ambiguous = path_.interrupts_ambiguous();
  for (std::size_t spec = 0; spec < rows_.size(); ++spec) {
    if (rows_[spec].total.count() == 0) continue;
    rows_[spec].key = printable(spans_.specs()[spec].name());
    paths_[spec].key = rows_[spec].key;
    paths_[spec].requests = rows_[spec].total.count();
    report.request_paths.push_back(std::move(paths_[spec]));
    report.rows.push_back(std::move(rows_[spec]));
  }
}

}  // namespace trapline
