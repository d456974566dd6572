#include <fmt/format.h>

#include "backend_ftrace/base/quoted_text.h"
#include "merge/render/render.h"
#include "merge/render/side_tables.h"
#include "merge/render/units.h"
#include "merge/render/waits.h"

namespace trapline {

void print_csv(const Report& report, std::ostream& out) {
  const bool calls = report.rows_of == RowsOf::kCalls;
  out << "key,count,total_ns,kernel_ns,user_ns,preempted_ns,blocked_ns,halted_ns,min_ns,mean_ns,"
         "p50_ns,p90_ns,p99_ns,p999_ns,max_ns,max_at_ns"
      << (calls ? ",guest_ns,devices_at_most_ns\n" : "\n");
  const States known = report.rows_of == RowsOf::kRequests ? States() : report.known_states();
  const bool durations = report.durations();
  for (const GroupRow& row : report.rows) {
    const Histogram& total = row.total;
    out << fmt::format("{},{}", csv_cell(row.key), total.count());
    const auto cell = [&](bool is_known, std::optional<std::uint64_t> ns) {
      out << ',' << (is_known ? csv_number(ns) : "");
    };
    cell(durations, total.total());
    for (std::size_t i = 0; i < kParts; ++i) cell(true, told(known, i, row.parts));
    for (const std::uint64_t ns : {total.min(), total.mean()}) cell(durations, ns);
    for (const std::uint32_t per_mille : {500u, 900u, 990u, 999u})
      cell(durations, total.percentile(per_mille));
    for (const std::uint64_t ns : {total.max(), row.max_at_ns}) cell(durations, ns);
    if (calls) out << fmt::format(",{},{}", row.guest_ns(), row.devices_at_most_ns);
    out << '\n';
  }
  print_waits_csv(report, out);
  print_side_tables_csv(report, out);
}

}  // namespace trapline
