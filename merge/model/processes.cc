#include "merge/model/processes.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

namespace trapline {

std::int32_t vcpu_of_name(std::string_view comm) {
  constexpr std::string_view kPrefix = "CPU ";
  if (!comm.starts_with(kPrefix)) return kNoVcpu;
  comm.remove_prefix(kPrefix.size());
  std::int32_t vcpu = kNoVcpu;
  const auto [end, error] = std::from_chars(comm.data(), comm.data() + comm.size(), vcpu);
  comm.remove_prefix(static_cast<std::size_t>(end - comm.data()));
  const bool known = error == std::errc{} && vcpu >= 0 && (comm == "/KVM" || comm == "/TCG");
  return known ? vcpu : kNoVcpu;
}

std::vector<Vm> find_vms(const std::vector<VcpuThread>& threads, const Processes& processes) {
  std::vector<Vm> vms(threads.size());
  std::vector<std::size_t> order(threads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return threads[a].thread < threads[b].thread; });
  Vm inferred{{}, true};
  std::set<std::int32_t> vcpus;
  for (const std::size_t i : order) {
    const VcpuThread& thread = threads[i];
    if (processes.knows(thread.thread)) {
      vms[i] = {processes.of(thread.thread, thread.thread), false};
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
