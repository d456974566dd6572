#include "merge/report/wait_table.h"

#include <algorithm>
#include <tuple>

namespace trapline {

void CulpritSums::add(const WaitShare& share, std::size_t most) {
  Culprit culprit = share.culprit;
  if (sums_.size() >= most && !sums_.contains(culprit)) {
    culprit = Culprit();
    culprit.missing = Missing::kRoom;
  }
  Sum& sum = sums_[culprit];
  sum.ns += share.length();
  ++sum.count;
  sum.max_ns = std::max(sum.max_ns, share.length());
}

WaitRows CulpritSums::rows(const Naming& names) const {
  WaitRows result;
  for (const auto& [culprit, sum] : sums_) {
    WaitRow row;
    row.culprit = names.text(culprit);
    if (culprit.is_thread()) {
      row.tid = static_cast<std::int32_t>(culprit.thread);
      row.vm = names.vm(culprit.thread);
      if (const Vm* vm = names.vcpus.vm_of(row.vm)) row.vm_name = vm->given;
      const ThreadId process = names.processes.of(culprit.thread, ThreadId{});
      if (process != ThreadId{}) row.process = std::to_string(static_cast<std::int32_t>(process));
    }
    row.ns = sum.ns;
    row.count = sum.count;
    row.max_ns = sum.max_ns;
    result.total_ns += sum.ns;
    result.rows.push_back(std::move(row));
  }
  std::sort(result.rows.begin(), result.rows.end(), [](const WaitRow& a, const WaitRow& b) {
    return std::tie(b.ns, a.culprit, a.tid) < std::tie(a.ns, b.culprit, b.tid);
  });
  return result;
}

}  // namespace trapline
