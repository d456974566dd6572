#include "merge/model/processes.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace trapline {

std::vector<Vm> find_vms(const std::vector<VcpuThread>& threads, const Processes& processes) {
  std::vector<Vm> vms(threads.size());
  std::vector<std::size_t> order(threads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return threads[i].thread; });
  Vm inferred{{}, true, {}};
  std::set<std::int32_t> vcpus;
  for (const std::size_t i : order) {
    const VcpuThread& thread = threads[i];
    if (processes.knows(thread.thread)) {
      const ThreadId process = processes.of(thread.thread, thread.thread);
      vms[i] = {process, false, processes.name_of(process)};
      continue;
    }
    const bool repeats = thread.vcpu != kNoVcpu && vcpus.contains(thread.vcpu);
    if (inferred.process == ThreadId{} || repeats) {
      inferred.process = thread.thread;
      vcpus.clear();
    }
    vcpus.insert(thread.vcpu);
    vms[i] = inferred;
  }
  return vms;
}

}  // namespace trapline
