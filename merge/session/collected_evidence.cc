#include "merge/session/collected_evidence.h"

#include <algorithm>
#include <variant>

namespace trapline {
namespace {

// Returns the guest's CPU that made an event, which for a guest call is in the call; kNoVcpu if not
// known.
std::int32_t cpu_of(const Event& event, const Collect& what) {
  if (const auto* call = std::get_if<GuestCall>(&event.payload))
    return what.of_vcpus ? call->vcpu : call->cpu;
  if (what.of_tasks || std::holds_alternative<Lost>(event.payload)) return kNoVcpu;
  return static_cast<std::int32_t>(event.cpu);
}

}  // namespace

void TimeSample::add(std::int32_t cpu, std::uint64_t time) {
  Cpu& of = cpus_[cpu];
  of.last = std::max(of.last, time);
  if (of.seen++ % of.step != 0) return;
  of.times.push_back(time);
  if (of.times.size() < 2 * kMost) return;
  for (std::size_t i = 0; 2 * i < of.times.size(); ++i) of.times[i] = of.times[2 * i];
  of.times.resize(kMost);
  of.step *= 2;
}

TimesByCpu TimeSample::take() {
  TimesByCpu times;
  for (auto& [cpu, of] : cpus_) {
    std::sort(of.times.begin(), of.times.end());
    if (of.times.back() != of.last) of.times.push_back(of.last);
    times[cpu] = std::move(of.times);
  }
  return times;
}

void VcpuThreads::on(const Event& event) {
  if (const auto* exit = std::get_if<KvmExit>(&event.payload)) {
    const auto [seen, fresh] = seen_.emplace(event.thread, exit->vcpu);
    if (!fresh && exit->vcpu != kNoVcpu) seen->second = exit->vcpu;
    if (first_ == 0) first_ = event.at.ns();
    last_ = event.at.ns();
  } else if (const auto* reload = std::get_if<KvmStateLoad>(&event.payload)) {
    const auto seen = seen_.find(event.thread);
    if (seen != seen_.end() && reload->vcpu != kNoVcpu) seen->second = reload->vcpu;
  }
}

std::vector<VcpuThread> VcpuThreads::all() const {
  std::vector<VcpuThread> threads;
  for (const auto& [thread, vcpu] : seen_)
    threads.push_back({thread, vcpu == kNoVcpu && seen_.size() == 1 ? 0 : vcpu});
  return threads;
}

std::optional<std::map<std::int32_t, ThreadId>> VcpuThreads::of_vm(
    const std::set<ThreadId>& some, const Processes& processes) const {
  const std::vector<VcpuThread> threads = all();
  const std::vector<Vm> vms = find_vms(threads, processes);
  std::set<ThreadId> wanted;
  for (std::size_t i = 0; i < threads.size(); ++i)
    if (some.empty() || some.contains(threads[i].thread)) wanted.insert(vms[i].process);
  if (wanted.size() != 1) return std::nullopt;
  std::map<std::int32_t, ThreadId> of_vm;
  for (std::size_t i = 0; i < threads.size(); ++i)
    if (vms[i].process == *wanted.begin()) of_vm.emplace(threads[i].vcpu, threads[i].thread);
  return of_vm;
}

void Collector::on(const Event& event) {
  const std::uint64_t at = event.at.ns();
  if (!evidence_.interval) evidence_.interval = clocks::Interval{at, at};
  evidence_.interval->last = std::max(evidence_.interval->last, at);
  if (const auto* marker = std::get_if<Marker>(&event.payload)) {
    evidence_.guest_markers.add(at, marker->text);
    if (marker->text.starts_with(kSyncPrefix))
      if (const auto record = parse_sync(marker->text)) syncs_.add(*record, at);
  } else if (const auto* made = std::get_if<NewThread>(&event.payload)) {
    evidence_.processes.on(event, *made);
  }
  if (what_.times) times_.add(cpu_of(event, what_), at);
  evidence_.vcpus.on(event);
  if (what_.runs) evidence_.runs.on_event(event);
  for (GuestBounds* guest : what_.guests) guest->on_event(event);
}

CollectedEvidence Collector::take() {
  evidence_.syncs = syncs_.take();
  evidence_.times = times_.take();
  return std::move(evidence_);
}

}  // namespace trapline
