#include "merge/pass/vcpu_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "merge/analyze/vmm/vmms.h"

namespace trapline {

std::vector<VcpuThread> vcpu_threads(const std::vector<VcpuTotalsOf>& vcpus,
                                     const Timeline& timeline) {
  return vcpu_threads(vcpus, [&timeline](std::size_t source, ThreadId thread) {
    return timeline.source(source).comm(thread);
  });
}

std::vector<VcpuThread> vcpu_threads(const std::vector<VcpuTotalsOf>& vcpus, const CommOf& comm) {
  std::vector<VcpuThread> threads;
  for (const auto& [thread, totals] : vcpus) {
    const std::int32_t vcpu =
        totals.vcpu != kNoVcpu ? totals.vcpu : vcpu_of_name(comm(totals.source, thread));
    threads.push_back({thread, vcpu});
  }
  return threads;
}

VcpuNames::VcpuNames(const std::vector<VcpuThread>& threads, const std::vector<Vm>& vms) {
  for (std::size_t i = 0; i < threads.size(); ++i) {
    several_vms_ |= vms[i].id() != vms[0].id();
    entries_[threads[i].thread] = {threads[i].vcpu, vms[i]};
  }
}

std::string VcpuNames::vm(ThreadId thread) const {
  const auto found = entries_.find(thread);
  return found == entries_.end() ? "?" : found->second.vm.text();
}

std::string VcpuNames::vm_id(ThreadId thread) const {
  const auto found = entries_.find(thread);
  return found == entries_.end() ? "?" : found->second.vm.id();
}

std::string VcpuNames::vm_name(ThreadId thread) const {
  const auto found = entries_.find(thread);
  return found == entries_.end() ? "" : found->second.vm.given;
}

std::int32_t VcpuNames::number(ThreadId thread) const {
  const auto found = entries_.find(thread);
  return found == entries_.end() ? kNoVcpu : found->second.vcpu;
}

std::string VcpuNames::vcpu(ThreadId thread, bool with_vm) const {
  const std::int32_t vcpu = number(thread);
  const std::string number = vcpu == kNoVcpu
                                 ? fmt::format("tid {}", static_cast<std::int32_t>(thread))
                                 : fmt::format("vCPU {}", vcpu);
  return with_vm && several_vms_ ? fmt::format("VM {} {}", vm(thread), number) : number;
}

bool VcpuNames::fits(ThreadId thread, const VcpuFilter& filter) const {
  if (filter.empty()) return true;
  const auto found = entries_.find(thread);
  return found != entries_.end() && filter.holds(found->second.vm, found->second.vcpu);
}

const Vm* VcpuNames::vm_of(const std::string& id) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry.second.vm.id() == id; });
  return found == entries_.end() ? nullptr : &found->second.vm;
}

}  // namespace trapline
