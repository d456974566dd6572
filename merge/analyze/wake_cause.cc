#include "merge/analyze/wake_cause.h"

#include "merge/analyze/cpu_runners.h"
#include "merge/analyze/pipeline.h"

namespace trapline {
namespace {

constexpr std::uint64_t kFutexCallMask = 0x7f;  // without FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME

Culprit known(CulpritKind kind, std::uint32_t number = 0) {
  Culprit culprit;
  culprit.kind = kind;
  culprit.number = number;
  return culprit;
}

}  // namespace

WakeCause::Cpu* WakeCause::cpu_of(std::uint32_t cpu) {
  if (cpu >= CpuRunners::kMostCpus) return nullptr;
  if (cpu >= cpus_.size()) cpus_.resize(cpu + 1);
  return &cpus_[cpu];
}

void WakeCause::on(const Event& event, const HostEvent& host) {
  Cpu* cpu = cpu_of(event.cpu);
  if (cpu == nullptr) return;
  switch (host.step) {
    case HostStep::kTimerBegin:
    case HostStep::kTimerEnd:
      cpu->in_timer = host.step == HostStep::kTimerBegin;
      break;
    case HostStep::kIrqBegin:
    case HostStep::kIrqEnd:
      cpu->in_irq = host.step == HostStep::kIrqBegin;
      cpu->irq = static_cast<std::uint32_t>(host.number);
      cpu->disk = false;
      break;
    case HostStep::kIpi:
      cpu->ipi_at = event.at;
      cpu->ipi_from = event.thread;
      break;
    case HostStep::kFutex:
      on_futex(event, host);
      break;
    default:
      break;
  }
}

void WakeCause::on_disk(std::uint32_t on) {
  if (Cpu* cpu = cpu_of(on)) cpu->disk = true;
}

// A lock of glibc sleeps in FUTEX_WAIT and lets go in FUTEX_WAKE; its condition variables and
// semaphores sleep in FUTEX_WAIT_BITSET.
void WakeCause::on_futex(const Event& event, const HostEvent& call) {
  enum Call : std::uint64_t { kWait = 0, kWake = 1, kLockPi = 6, kUnlockPi = 7, kLockPi2 = 13 };
  Futex* futex = futexes_.get(event.thread, kMostThreads);
  if (futex == nullptr) return;
  *futex = {event.at, call.address, Futex::Call::kOther};
  switch (call.call & kFutexCallMask) {
    case kWait:
    case kLockPi:
    case kLockPi2:
      futex->call = Futex::Call::kLock;
      break;
    case kWake:
    case kUnlockPi:
      futex->call = Futex::Call::kUnlock;
      break;
    default:
      break;
  }
}

bool WakeCause::lets_go_of_lock(ThreadId waiting, ThreadId waking, Timestamp since) const {
  const Futex* waits = futexes_.find(waiting);
  const Futex* wakes = futexes_.find(waking);
  return waits != nullptr && wakes != nullptr && waits->call == Futex::Call::kLock &&
         wakes->call == Futex::Call::kUnlock && waits->address == wakes->address &&
         waits->at <= since && wakes->at >= since;
}

// No interrupt lasts over a switch: an end that was lost is made up for here.
void WakeCause::on_switch(const Event& event) {
  if (event.cpu < cpus_.size()) cpus_[event.cpu] = {};
}

void WakeCause::on_vmm_event(ThreadId thread, Timestamp at, NameId name) {
  if (LastVmmEvent* last = last_vmm_events_.get(thread, kMostThreads)) *last = {at, name};
}

Culprit WakeCause::of(const Event& event, const SchedWakeup& wakeup, Timestamp since,
                      const Pipeline& pipeline) const {
  const Cpu cpu = event.cpu < cpus_.size() ? cpus_[event.cpu] : Cpu{};
  switch (wakeup.context) {
    case SchedWakeup::Context::kInterrupt:
      if (cpu.disk) return known(CulpritKind::kDisk);
      if (cpu.in_timer) return known(CulpritKind::kTimer);
      if (cpu.in_irq) return known(CulpritKind::kInterrupt, cpu.irq);
      // sched_wakeup may come in the interrupt by which another CPU passed the wake-up on.
      return unknown_for(wakeup.waking ? Missing::kContext : Missing::kWakeups);
    case SchedWakeup::Context::kUnknown:
      return unknown_for(Missing::kContext);
    case SchedWakeup::Context::kThread:
      break;
  }
  // The idle thread wakes nobody: it took over a wake-up from another CPU.
  if (event.thread == ThreadId{}) return unknown_for(Missing::kWakeups);
  Culprit culprit = known(CulpritKind::kThread);
  culprit.thread = event.thread;
  const auto vcpu = pipeline.vcpu(event.thread);
  if (vcpu && cpu.ipi_from == event.thread && vcpu->where == VcpuState::Where::kKernel &&
      cpu.ipi_at >= vcpu->begin) {
    culprit.kind = CulpritKind::kIpi;
    return culprit;
  }
  const LastVmmEvent* last = last_vmm_events_.find(event.thread);
  if (last != nullptr && last->at >= since) culprit.handler = last->name;
  if (lets_go_of_lock(wakeup.thread, event.thread, since)) culprit.kind = CulpritKind::kLock;
  return culprit;
}

}  // namespace trapline
