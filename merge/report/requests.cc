#include "merge/report/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/pipeline.h"
#include "merge/report/common_columns.h"
#include "merge/report/report_data.h"
#include "merge/report/units.h"

namespace trapline {

RequestTable::Row& RequestTable::row(std::size_t spec) {
  if (spec >= rows_.size()) rows_.resize(spec + 1);
  return rows_[spec];
}

void RequestTable::add(const Delivered& delivered) {
  const RequestSpan& request = delivered.request;
  RequestPathRow& path = row(request.spec).path;
  path.to_injection.add(elapsed(request.end, delivered.injected));
  if (request.irqfd) ++path.irqfd;
  if (delivered.posted) ++path.posted;
  if (request.notified) path.whole.add(elapsed(request.notified->begin, delivered.injected));
}

void RequestTable::add(const RequestSpan& request) {
  Row& row = this->row(request.spec);
  if (request.notified) row.path.from_notify.add(elapsed(request.notified->begin, request.start));
  if (request.block) add(*request.block, request, row.path);
  const std::uint64_t total = elapsed(request.start, request.end);
  Histogram& all = row.request.total;
  if (total > all.max() || all.count() == 0) row.request.max_at_ns = request.start.ns();
  all.add(total);
}

// Without the bio's event it is not known where the VMM's part ends and the block layer's begins.
void RequestTable::add(const BlockTimes& block, const RequestSpan& request, RequestPathRow& path) {
  if (block.queued) {
    path.to_block.add(elapsed(request.start, *block.queued));
    path.in_block_layer.add(elapsed(*block.queued, block.issued));
  }
  path.in_disk.add(elapsed(block.issued, block.completed));
  path.from_disk.add(elapsed(block.completed, request.end));
}

void RequestTable::report_vhost(ReportData& report, const Pipeline& pipeline) {
  pipeline.vhost().for_each([&](ThreadId thread, const VhostTracker::Worker& worker) {
    if (worker.turns == 0 && worker.interrupts == 0) return;
    VhostRow row{worker, thread, printable(pipeline.processes().name_of(worker.process))};
    row.name = printable(worker.name);
    report.vhost.push_back(std::move(row));
  });
}

void RequestTable::report(ReportData& report, const Pipeline& pipeline) const {
  const RequestPath& path = *pipeline.request_path();
  const RequestSpans& spans = path.spans();
  report_vhost(report, pipeline);
  report.rows_of = RowsOf::kRequests;
  report.counters.requests_restarted = spans.restarted();
  report.counters.requests_end_only = spans.end_without_start();
  report.counters.requests_open = spans.open();
  report.counters.notifies_ambiguous = path.notifies_ambiguous();
  report.counters.interrupts_ambiguous = path.interrupts_ambiguous();
  report.counters.bios_ambiguous = path.bios_ambiguous();
  for (std::size_t spec = 0; spec < rows_.size(); ++spec) {
    if (rows_[spec].request.total.count() == 0) continue;
    Row row = rows_[spec];
    row.request.key = row.path.key = printable(spans.specs()[spec].name());
    row.path.requests = row.request.total.count();
    report.request_paths.push_back(std::move(row.path));
    report.rows.push_back(std::move(row.request));
  }
}

Table request_path_table(const ReportData& report) {
  using Row = RequestPathRow;
  TableOf<Row> table({.key = "request_paths", .csv = true}, report.request_paths, &Row::key);
  if (!report.rows.empty()) table.titles = {"From notify to interrupt", "From request to disk"};
  // The same interrupts are counted in the row of a queue's requests and in that of its disk's
  // requests, so rows are not summed: the largest one has all interrupts.
  const auto add_count = [&table](std::uint64_t Row::*count, const char* text) {
    std::uint64_t most = 0;
    for (const Row& row : table.all()) most = std::max(most, row.*count);
    if (most != 0)
      table.after.push_back(
          {.text = fmt::format("{} of a queue's interrupts {}", grouped(most), text),
           .verbatim = true});
  };
  add_count(&Row::irqfd, "came through an eventfd (irqfd).");
  add_count(&Row::posted, "were posted: their injection is the post.");
  table.add({"key"}, &Row::key);
  table.add({"requests"}, &Row::requests);
  add_distribution(table, "notify_to_start",
                   {.count = "notified", .p50 = "to start p50", .p99 = "p99"}, &Row::from_notify);
  add_distribution(table, "end_to_injection",
                   {.count = "injected", .p50 = "from end p50", .p99 = "p99"}, &Row::to_injection);
  add_distribution(table, "notify_to_injection",
                   {.count = "both", .p50 = "in all p50", .p99 = "p99"}, &Row::whole);
  // Returns the column for rows that have events of block devices.
  const auto if_disk = [](Histogram Row::*part) {
    return [part](const Row& row) { return row.in_disk.count() == 0 ? nullptr : &(row.*part); };
  };
  table.add({"", "known", Unit::kCount, 1}, [](const Row& row) {
    return row.in_disk.count() == 0 ? CellValue(Absent()) : to_value(row.in_disk.count());
  });
  const auto titles = [](std::string_view p50) {
    return DistributionTitles{.p50 = p50, .p99 = "p99", .block = 1};
  };
  add_distribution(table, "block.start_to_bio", titles("to bio p50"), if_disk(&Row::to_block));
  add_distribution(table, "block.bio_to_issue", titles("block layer p50"),
                   if_disk(&Row::in_block_layer));
  add_distribution(table, "block.issue_to_complete", titles("disk p50"), if_disk(&Row::in_disk));
  add_distribution(table, "block.complete_to_end", titles("to end p50"), if_disk(&Row::from_disk));
  const auto if_any = [](std::uint64_t Row::*count) {
    return [count](const Row& row) {
      return row.*count == 0 ? CellValue(Absent()) : to_value(row.*count);
    };
  };
  table.add({"irqfd"}, if_any(&Row::irqfd));
  table.add({"posted"}, if_any(&Row::posted));
  return table;
}

Table vhost_table(const ReportData& report) {
  using Row = VhostRow;
  TableOf<Row> table({.key = "vhost", .csv = true}, report.vhost, [](const Row& row) {
    return fmt::format("{} (tid {})", row.name, tid_text(row.thread));
  });
  table.titles = {"vhost workers"};
  table.add({"worker"}, &Row::name);
  table.add({"tid"}, [](const Row& row) { return tid_of(row.thread); });
  table.add({"process"}, [](const Row& row) { return number_or_null(tid_of(row.process), 0); });
  table.add({"vm_name"}, [](const Row& row) { return text_or_null(row.vm_name); });
  table.add({"turns", "turns"}, &Row::turns);
  table.add({"notified", "by notify"}, &Row::notified);
  table.add({"interrupts"}, &Row::interrupts);
  table.add({"preempted_ns"}, &Row::preempted_ns);
  add_distribution(table, "woken_to_run", {.p50 = "to run p50", .p99 = "p99"}, &Row::to_run);
  add_distribution(table, "ran", {.p50 = "ran p50", .p99 = "p99"}, &Row::ran);
  table.add({"", "interrupts"}, &Row::interrupts);
  add_distribution(table, "notify_to_interrupt", {.p50 = "from notify p50", .p99 = "p99"},
                   &Row::notify_to_interrupt);
  add_distribution(table, "raise_to_injection", {.p50 = "to injection p50", .p99 = "p99"},
                   &Row::to_injection);
  return table;
}

}  // namespace trapline
