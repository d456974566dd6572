#include "merge/render/request_way.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "merge/render/percentiles.h"

namespace trapline {
namespace {

bool has_block_layer(const RequestPathRow& row) { return row.in_disk.count() != 0; }

void print_block_layer(const Report& report, std::ostream& out, const TextStyle& style) {
  std::vector<RequestPathRow> rows;
  std::ranges::copy_if(report.request_paths, std::back_inserter(rows), has_block_layer);
  if (rows.empty()) return;
  const Unit unit = unit_of_medians(rows,
                                    {&RequestPathRow::to_block, &RequestPathRow::in_block_layer,
                                     &RequestPathRow::in_disk, &RequestPathRow::from_disk},
                                    report.cycles);
  TextTable table({fmt::format("From request to disk/{}", unit.name), "known", "to bio p50", "p99",
                   "block layer p50", "p99", "disk p50", "p99", "to end p50", "p99"});
  for (const RequestPathRow& row : rows) {
    std::vector<std::string> cells = {row.key, grouped(row.in_disk.count())};
    for (const Histogram* part : {&row.to_block, &row.in_block_layer, &row.in_disk, &row.from_disk})
      add_percentiles(cells, *part, unit);
    table.add(std::move(cells));
  }
  out << '\n';
  table.print(out, style);
}

void print_eventfds(const Report& report, std::ostream& out) {
  std::uint64_t irqfd = 0, posted = 0;
  // A request of a disk is part of its queue's: the largest row has all of them.
  for (const RequestPathRow& row : report.request_paths) {
    irqfd = std::max(irqfd, row.irqfd);
    posted = std::max(posted, row.posted);
  }
  if (irqfd != 0) {
    out << fmt::format("{} of a queue's interrupts came through an eventfd (irqfd).\n",
                       grouped(irqfd));
  }
  if (posted != 0) {
    out << fmt::format("{} of a queue's interrupts were posted: their injection is the post.\n",
                       grouped(posted));
  }
}

void print_vhost(const Report& report, std::ostream& out, const TextStyle& style) {
  if (report.vhost.empty()) return;
  const Unit unit = unit_of_medians(
      report.vhost, {&VhostRow::to_run, &VhostRow::ran, &VhostRow::notify_to_interrupt},
      report.cycles);
  TextTable table({fmt::format("vhost workers/{}", unit.name), "turns", "by notify", "to run p50",
                   "p99", "ran p50", "p99", "interrupts", "from notify p50", "p99",
                   "to injection p50", "p99"});
  for (const VhostRow& row : report.vhost) {
    std::vector<std::string> cells = {fmt::format("{} (tid {})", row.worker, row.tid),
                                      grouped(row.turns), grouped(row.notified)};
    add_percentiles(cells, row.to_run, unit);
    add_percentiles(cells, row.ran, unit);
    cells.push_back(grouped(row.interrupts));
    add_percentiles(cells, row.notify_to_interrupt, unit);
    add_percentiles(cells, row.to_injection, unit);
    table.add(std::move(cells));
  }
  out << '\n';
  table.print(out, style);
}

}  // namespace

void print_request_way(const Report& report, std::ostream& out, const TextStyle& style) {
  print_block_layer(report, out, style);
  print_eventfds(report, out);
  print_vhost(report, out, style);
}

void add_request_way(Json& json, const RequestPathRow& row) {
  if (has_block_layer(row)) {
    json["block"] = {{"start_to_bio", distribution_json(row.to_block)},
                     {"bio_to_issue", distribution_json(row.in_block_layer)},
                     {"issue_to_complete", distribution_json(row.in_disk)},
                     {"complete_to_end", distribution_json(row.from_disk)}};
  }
  if (row.irqfd != 0) json["irqfd"] = row.irqfd;
  if (row.posted != 0) json["posted"] = row.posted;
}

Json vhost_json(const Report& report) {
  Json rows = Json::array();
  for (const VhostRow& row : report.vhost) {
    rows.push_back({{"worker", row.worker},
                    {"tid", row.tid},
                    {"process", row.process == 0 ? Json() : Json(row.process)},
                    {"vm_name", row.vm_name.empty() ? Json() : Json(row.vm_name)},
                    {"turns", row.turns},
                    {"notified", row.notified},
                    {"interrupts", row.interrupts},
                    {"preempted_ns", row.preempted_ns},
                    {"woken_to_run", distribution_json(row.to_run)},
                    {"ran", distribution_json(row.ran)},
                    {"notify_to_interrupt", distribution_json(row.notify_to_interrupt)},
                    {"raise_to_injection", distribution_json(row.to_injection)}});
  }
  return rows;
}

}  // namespace trapline
