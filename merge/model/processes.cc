#include "merge/model/processes.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace trapline {

CpuQuotas::CpuQuotas(std::vector<CpuQuota> quotas) : quotas_(std::move(quotas)) {
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < quotas_.size(); ++i) {
    left_.push_back(quotas_[i].throttled == 0 ? 0 : quotas_[i].throttled_ns);
    places.emplace(quotas_[i].cgroup, i);
  }
  for (const CpuQuota& quota : quotas_) {
    std::vector<std::size_t> chain;  // from the thread's own cgroup up to the root
    std::string_view path = quota.cgroup;
    for (std::size_t level = 0; level < kMostLevels && !path.empty(); ++level) {
      if (const auto found = places.find(path); found != places.end() && left_[found->second] != 0)
        chain.push_back(found->second);
      path = path.substr(0, path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/'));
    }
    if (chain.empty()) continue;
    for (const std::int32_t tid : quota.threads) {
      auto& of = of_[ThreadId{tid}];
      if (of.empty()) of = chain;  // if a thread was moved, keep its first cgroup
    }
  }
}

bool CpuQuotas::take(ThreadId thread, std::uint64_t ns) {
  const auto found = of_.find(thread);
  if (found == of_.end()) return false;
  std::uint64_t all = 0;
  for (const std::size_t quota : found->second) all += std::min(left_[quota], ns);
  if (all < ns) return false;
  for (const std::size_t quota : found->second) {
    const std::uint64_t taken = std::min(left_[quota], ns);
    left_[quota] -= taken;
    ns -= taken;
  }
  return true;
}

std::vector<const CpuQuota*> CpuQuotas::of(ThreadId thread) const {
  std::vector<const CpuQuota*> quotas;
  const auto found = of_.find(thread);
  if (found == of_.end()) return quotas;
  for (const std::size_t quota : found->second) quotas.push_back(&quotas_[quota]);
  return quotas;
}

void CpuQuotas::move(ThreadId from, ThreadId to) {
  if (auto node = of_.extract(from)) {
    node.key() = to;
    of_.insert(std::move(node));
  }
  if (known_.erase(from) != 0) known_.insert(to);
}

// Returns whether of() is another than before.
bool Processes::tell(ThreadId thread, ThreadId process) {
  if (process_.size() >= kMost) return false;
  const auto [known, is_new] = process_.try_emplace(thread, process);
  if (!is_new && known->second == process) return false;
  known->second = process;
  ++changes_;
  return true;
}

void Processes::use_again(ThreadId now, const IsSeen& is_seen) {
  const auto listed = listed_.find(ThreadId{tid_of(now)});
  if (listed == listed_.end()) return;
  for (const ThreadId thread : listed->second) {
    const bool is_told = born_.contains(thread) || tid_of(of(thread, {})) != tid_of(now);
    if (is_told || is_seen(thread)) continue;
    tell(thread, now);
    set_of_several(thread);
  }
}

bool Processes::has_threads(ThreadId process, const IsSeen& is_seen) const {
  const auto found = born_.find(process);
  if (found != born_.end() && found->second.has_threads) return true;
  const auto listed = listed_.find(process);
  return listed != listed_.end() && std::ranges::any_of(listed->second, [&](ThreadId thread) {
           return of(thread, {}) == process && !is_of_several(thread) &&
                  (!is_seen || is_seen(thread));
         });
}

void Processes::set_slots(ThreadId process, std::vector<Slot> slots) {
  std::ranges::sort(slots, {}, &Slot::first);
  slots_[process] = std::move(slots);
}

// Slots with a name were there before the recording and after it, so that no other slot overlaps.
const Processes::Slot* Processes::slot_at(ThreadId vm, std::uint64_t address) const {
  const auto found = slots_.find(ThreadId{tid_of(vm)});
  if (found == slots_.end()) return nullptr;
  const auto next = std::ranges::upper_bound(found->second, address, {}, &Slot::first);
  const Slot* slot = next == found->second.begin() ? nullptr : &*std::prev(next);
  return slot != nullptr && address <= slot->last && !slot->name.empty() ? slot : nullptr;
}

std::string Processes::slot_of(ThreadId vm, std::uint64_t first, std::uint64_t last) const {
  const Slot* const is = slot_at(vm, first);
  for (const Slot* slot = is; slot != nullptr && slot->name == is->name;
       slot = slot_at(vm, slot->last + 1))
    if (slot->last >= last) return is->name;
  return {};
}

std::vector<Vm> find_vms(const std::vector<VcpuThread>& threads, const Processes& processes) {
  std::vector<Vm> vms(threads.size());
  std::vector<std::size_t> order(threads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::pair(tid_of(threads[i].thread), life_of(threads[i].thread));
  });
  Vm inferred{.process = {}, .inferred = true};
  std::set<std::int32_t> vcpus;
  std::int32_t next = 0;
  bool in_order = true, several = false;
  for (const std::size_t i : order) {
    const VcpuThread& thread = threads[i];
    if (processes.is_of_several(thread.thread)) {
      vms[i] = {.process = thread.thread, .inferred = true, .known = false};
      continue;
    }
    if (processes.knows(thread.thread)) {
      vms[i] = {.process = processes.of(thread.thread, thread.thread)};
      continue;
    }
    const bool repeats = thread.vcpu != kNoVcpu && vcpus.contains(thread.vcpu);
    if (inferred.process == ThreadId{} || repeats) {
      several |= repeats;
      inferred.process = thread.thread;
      vcpus.clear();
      next = 0;
    }
    in_order &= thread.vcpu == next++;
    vcpus.insert(thread.vcpu);
    vms[i] = inferred;
  }
  for (std::size_t i = 0; several && !in_order && i < vms.size(); ++i)
    if (vms[i].inferred) vms[i] = {.process = threads[i].thread, .inferred = true, .known = false};
  std::set<ThreadId> of_vms;
  for (const Vm& vm : vms)
    if (!vm.inferred) of_vms.insert(vm.process);
  for (Vm& vm : vms) {
    if (vm.inferred) continue;
    const ThreadId latest = processes.now(ThreadId{tid_of(vm.process)});
    for (std::uint32_t life = 0; life <= life_of(latest); ++life) {
      const ThreadId other = thread_of(tid_of(latest), life);
      if (other == vm.process || (!of_vms.contains(other) && !processes.has_threads(other)))
        continue;
      vm.is_alone = false;
      if (life < life_of(vm.process)) ++vm.earlier;
    }
    if (vm.is_alone) vm.given = processes.name_of(vm.process);
  }
  return vms;
}

}  // namespace trapline
