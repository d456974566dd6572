#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend_ftrace/base/quoted_text.h"
#include "merge/render/render.h"
#include "merge/render/waits.h"

namespace trapline {

void print_csv(const Report& report, std::ostream& out) {
  const bool calls = report.rows_of == RowsOf::kCalls;
  out << "key,count,total_ns,kernel_ns,user_ns,preempted_ns,blocked_ns,halted_ns,min_ns,mean_ns,"
         "p50_ns,p90_ns,p99_ns,p999_ns,max_ns,max_at_ns"
      << (calls ? ",guest_ns,devices_at_most_ns\n" : "\n");
  for (const GroupRow& row : report.rows) {
    const Histogram& total = row.total;
    out << fmt::format("{},{},{},{}", csv_cell(row.key), total.count(), total.total(),
                       fmt::join(row.parts, ","));
    out << fmt::format(",{},{},{},{},{},{},{},{}", total.min(), total.mean(), total.percentile(500),
                       total.percentile(900), total.percentile(990), total.percentile(999),
                       total.max(), row.max_at_ns);
    if (calls) out << fmt::format(",{},{}", row.guest_ns(), row.devices_at_most_ns);
    out << '\n';
  }
  print_waits_csv(report, out);
}

}  // namespace trapline
