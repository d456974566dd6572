#include "merge/export/perfetto_fused.h"

#include <fmt/format.h>

namespace trapline::perfetto {

void FusedTracks::close(HostCpu& cpu, Timestamp at) {
  if (cpu.vcpu == ThreadId{}) return;
  if (cpu.has_process) writer_.end(cpu.track, at.ns());
  writer_.end(cpu.track, at.ns());
  if (Vcpu* vcpu = vcpus_.find(cpu.vcpu)) vcpu->on = nullptr;
  cpu.vcpu = {};
  cpu.has_process = false;
}

void FusedTracks::close(GuestCpu& cpu, Timestamp at) {
  if (!cpu.process) return;
  writer_.end(cpu.track, at.ns());
  cpu.process.reset();
}

void FusedTracks::on_host_switch(const Event& event, const SchedSwitch& sched,
                                 std::optional<Text> name) {
  const auto found = host_.find(event.cpu);
  if (found != host_.end()) close(found->second, event.at);
  if (!name || sched.next == ThreadId{}) return;
  Vcpu* vcpu = vcpus_.get(sched.next, kMostTracks);
  if (vcpu == nullptr) return;
  if (vcpu->on != nullptr) close(*vcpu->on, event.at);  // the switch that left it was lost
  HostCpu& cpu = host_[event.cpu];
  if (cpu.track == 0) {
    if (host_track_ == 0) host_track_ = writer_.add_track(0, "host CPUs", -7, true);
    cpu.track = writer_.add_track(host_track_, fmt::format("CPU {}", event.cpu),
                                  static_cast<int>(event.cpu), true);
  }
  cpu.vcpu = sched.next;
  vcpu->on = &cpu;
  writer_.begin(cpu.track, event.at.ns(), {*name, of_vcpu_});
  if (vcpu->process) show_process(*vcpu, vcpu->process, event.at);
}

// Inside the vCPU's slice on the host's CPU.
void FusedTracks::show_process(Vcpu& vcpu, std::optional<Text> process, Timestamp at) {
  vcpu.process = process;
  if (vcpu.on == nullptr) return;
  HostCpu& cpu = *vcpu.on;
  if (std::exchange(cpu.has_process, process.has_value())) writer_.end(cpu.track, at.ns());
  if (process) writer_.begin(cpu.track, at.ns(), {*process, of_process_});
}

void FusedTracks::on_guest_switch(const Event& event, const SchedSwitch& sched,
                                  std::uint64_t track) {
  if (guests_.size() >= kMostTracks) return;
  GuestCpu& cpu = guests_[{event.machine, event.cpu}];
  if (cpu.track == 0) cpu.track = writer_.add_track(track, "guest processes", 1, true);
  close(cpu, event.at);
  cpu.vcpu = event.thread;
  if (sched.next != ThreadId{}) {
    cpu.process = texts_.guest_process(event, sched.next);
    writer_.begin(cpu.track, event.at.ns(), {*cpu.process, of_process_});
  }
  if (event.thread == ThreadId{}) return;
  if (Vcpu* vcpu = vcpus_.get(event.thread, kMostTracks))
    show_process(*vcpu, cpu.process, event.at);
}

void FusedTracks::on_lost(const Event& event) {
  if (!is_guest(event.machine)) {
    const auto found = host_.find(event.cpu);
    if (found != host_.end()) close(found->second, event.at);
    return;
  }
  const auto found = guests_.find({event.machine, event.cpu});
  if (found == guests_.end()) return;
  close(found->second, event.at);
  if (Vcpu* vcpu = vcpus_.find(found->second.vcpu)) show_process(*vcpu, std::nullopt, event.at);
}

void FusedTracks::finish(Timestamp at) {
  for (auto& [number, cpu] : host_) close(cpu, at);
  for (auto& [key, cpu] : guests_) close(cpu, at);
}

}  // namespace trapline::perfetto
