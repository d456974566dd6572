#include "merge/report/host_roles.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "backend_ftrace/base/text.h"
#include "merge/model/kernel_threads.h"

namespace trapline {
namespace {

// Returns the id of a thread's VM; empty if it has none or if it is not known.
std::string vm_of(ThreadId thread, const std::string& comm, const Naming& names) {
  std::string id = names.vm(thread);
  const std::int32_t named = id.empty() ? tid_of(process_in_name(comm)) : 0;
  if (named == 0) return id;
  const auto vm = std::ranges::find_if(names.vms, [named](const Vm& of) {
    return !of.inferred && of.is_alone && tid_of(of.process) == named;
  });
  return vm == names.vms.end() ? id : vm->id();
}

// Returns the last process that a thread without a VM may be of. The thread may be of each process
// that had the id before, too.
ThreadId perhaps_of(ThreadId thread, const std::string& comm, const Naming& names) {
  const Processes& known = names.processes;
  return known.is_of_several(thread) ? known.of(thread, {}) : known.now(process_in_name(comm));
}

HostRole role_of(ThreadId thread, const std::string& comm, const Vm& vm, const Naming& names) {
  if (names.is_vcpu(thread)) return HostRole::kVcpu;
  if (thread == vm.process) return HostRole::kMainLoop;
  if (comm.starts_with("vhost-")) return HostRole::kVhost;
  if (comm.starts_with("iou-wrk-") || comm.starts_with("iou-sqp-")) return HostRole::kIoUring;
  if (comm.starts_with("kvm-pit/") || comm.starts_with("kvm-nx-lpage-re")) return HostRole::kKernel;
  return comm.starts_with("IO ") ? HostRole::kIoThread : HostRole::kOther;
}

// Returns the VMs of selected vCPUs, by id.
std::map<std::string, const Vm*> selected_vms(const Naming& names) {
  std::map<std::string, const Vm*> vms;
  for (std::size_t i = 0; i < names.vms.size(); ++i)
    if (names.pipeline.counts(names.threads[i].thread)) vms[names.vms[i].id()] = &names.vms[i];
  return vms;
}

}  // namespace

std::string_view text_of(HostRole role) {
  constexpr std::array<std::string_view, 9> kTexts = {"not known", "vcpu",       "main loop",
                                                      "iothread",  "vhost",      "io_uring",
                                                      "kernel",    "work items", "other"};
  return kTexts[static_cast<std::size_t>(role)];
}

std::string key_of(HostRole role) {
  std::string key(text_of(role));
  std::ranges::replace(key, ' ', '_');
  return key;
}

std::vector<HostThread> host_threads(const Naming& names,
                                     const std::vector<HostRuns::Entry>& runs) {
  const auto vms = selected_vms(names);
  std::vector<HostThread> threads;
  for (const HostRuns::Entry& entry : runs) {
    if (entry.state.ran_ns == 0) continue;
    // Takes the thread's last name, as a program that the thread executed gave it another one.
    std::string comm =
        printable(names.pipeline.threads().name_at(entry.thread, names.pipeline.end()));
    if (comm.empty()) comm = names.comm(entry.thread);
    const std::string id = vm_of(entry.thread, comm, names);
    const auto add = [&](const Vm& vm, bool unsure) {
      const bool lacks_runs =
          unsure || !names.pipeline.threads().switches().has_all_of(entry.thread);
      threads.push_back(
          {&vm, role_of(entry.thread, comm, vm, names), comm, entry, lacks_runs, unsure});
    };
    if (const auto vm = vms.find(id); vm != vms.end()) add(*vm->second, false);
    const bool is_known = !id.empty() && !names.is_vcpu(entry.thread);
    const ThreadId perhaps = is_known ? ThreadId{} : perhaps_of(entry.thread, comm, names);
    // A vCPU of which nothing tells may be of each VM but those all of whose threads events told,
    // and so may a thread of which the list may not tell.
    const bool is_any = names.processes.is_of_several(entry.thread) ||
                        (names.is_vcpu(entry.thread) && !names.processes.knows(entry.thread));
    if (perhaps == ThreadId{} && !is_any) continue;
    for (const auto& [of, vm] : vms) {
      const ThreadId process = vm->process;
      const bool may_be =
          (is_any && !names.processes.was_made(process)) ||
          (tid_of(process) == tid_of(perhaps) && life_of(process) <= life_of(perhaps));
      if (!vm->inferred && may_be) add(*vm, true);
    }
  }
  std::ranges::stable_sort(threads, std::greater(),
                           [](const HostThread& one) { return one.runs.state.ran_ns; });
  return threads;
}

std::vector<HostThread> host_works(const Naming& names) {
  const auto vms = selected_vms(names);
  std::map<std::pair<const Vm*, ThreadId>, HostThread> works;
  for (const auto& [key, work] : names.pipeline.host_runs()->works(names.pipeline.end())) {
    const auto [worker, by] = key;
    const auto vm = vms.find(vm_of(by, {}, names));
    if (vm == vms.end() || names.processes.is_of_several(by)) continue;
    HostThread& thread = works[{vm->second, worker}];
    thread = {vm->second, HostRole::kWork, names.comm(worker), {worker, thread.runs.state}};
    thread.lacks_runs = !names.pipeline.threads().switches().has_all_of(worker);
    thread.runs.state.ran_ns += work.ran_ns;
    thread.runs.state.turns += work.items;
  }
  std::vector<HostThread> threads;
  for (auto& [of, thread] : works) threads.push_back(std::move(thread));
  return threads;
}

std::uint32_t host_cpus(const Timeline& timeline) {
  std::uint32_t cpus = 0;
  for (std::size_t i = 0; i < timeline.size(); ++i)
    if (const Source& source = timeline.source(i); source.info().role == Role::kHostKernel)
      cpus = std::max(cpus, source.describe().machine.cpus);
  return cpus;
}

}  // namespace trapline
