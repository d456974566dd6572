#include "merge/analyze/wake_cause.h"

#include "merge/analyze/cpu_runners.h"
#include "merge/analyze/pipeline.h"

namespace trapline {
namespace {

Culprit known(CulpritKind kind, std::uint32_t number = 0) {
  return {.kind = kind, .number = number};
}

}  // namespace

WakeCause::Cpu* WakeCause::cpu_of(std::uint32_t cpu) {
  if (cpu >= CpuRunners::kMostCpus) return nullptr;
  if (cpu >= cpus_.size()) cpus_.resize(cpu + 1);
  return &cpus_[cpu];
}

void WakeCause::begin(Cpu& cpu, Handler handler) {
  // More are never open at once, so their ends were not recorded.
  if (cpu.depth == kMostHandlers) cpu.depth = 0;
  cpu.open[cpu.depth++] = handler;
}

// Ends a handler, and those that began inside it. An end without a begin belongs to a handler that
// was open before the recording or before the CPU's last switch.
void WakeCause::end(Cpu& cpu, Handler::Kind kind) {
  ends_[static_cast<std::size_t>(kind)] = true;
  for (std::size_t i = cpu.depth; i > 0; --i) {
    if (cpu.open[i - 1].kind != kind) continue;
    cpu.depth = i - 1;
    return;
  }
}

void WakeCause::on(const Event& event, const HostEvent& host) {
  Cpu* cpu = cpu_of(event.cpu);
  if (cpu == nullptr) return;
  using Kind = Handler::Kind;
  const auto number = static_cast<std::uint32_t>(host.number);
  switch (host.step) {
    case HostStep::kTimerBegin:
      begin(*cpu, {Kind::kTimer, host.level, false, 0});
      break;
    case HostStep::kTimerEnd:
      end(*cpu, Kind::kTimer);
      break;
    case HostStep::kIrqBegin:
      begin(*cpu, {Kind::kInterrupt, InterruptLevel::kHard, false, number});
      break;
    case HostStep::kIrqEnd:
      end(*cpu, Kind::kInterrupt);
      break;
    case HostStep::kSoftirqBegin:
      begin(*cpu, {Kind::kSoftirq, InterruptLevel::kSoft, false, number});
      break;
    case HostStep::kSoftirqEnd:
      end(*cpu, Kind::kSoftirq);
      break;
    case HostStep::kIpi:
      cpu->ipi_at = event.at;
      cpu->ipi_from = event.thread;
      cpu->ipi_to = host.number;
      break;
    case HostStep::kFutex:
      futexes_.on_call(event.thread, event.at, host);
      break;
    case HostStep::kFutexEnd:
      futexes_.on_return(event.thread, event.at);
      break;
    default:
      break;
  }
}

// A read or write that ended in a thread's context, or in an interrupt without a known handler,
// shows nothing about later wake-ups of that CPU.
void WakeCause::on_disk(std::uint32_t on, const BlockIo& block) {
  Cpu* cpu = cpu_of(on);
  if (cpu == nullptr || cpu->depth == 0 || block.level == InterruptLevel::kNone) return;
  Handler& innermost = cpu->open[cpu->depth - 1];
  if (innermost.level == block.level) innermost.disk = true;
}

// No interrupt lasts over a switch, which makes up for lost ends.
void WakeCause::on_run(const ThreadChange& change) {
  if (change.cpu < cpus_.size()) cpus_[change.cpu] = {};
  futexes_.on_run(change.thread, change.at);
}

void WakeCause::on_lost(const Event& event) {
  if (event.cpu < cpus_.size()) cpus_[event.cpu] = {};
  futexes_.on_lost();
}

void WakeCause::on_vmm_event(const Event& event, NameId name, std::string_view text,
                             const Pipeline& of) {
  if (futexes_.on_mutex(event.thread, event.at, of.names()[name], text)) return;
  if (LastVmmEvent* last = last_vmm_events_.get(event.thread, kMostThreads))
    *last = {event.at, name};
}

Culprit WakeCause::in_interrupt(const Cpu& cpu, const ThreadChange& wakeup) {
  // sched_wakeup may come in the interrupt by which another CPU passed the wake-up on.
  const Culprit unknown = unknown_for(wakeup.waking ? Missing::kContext : Missing::kWakeups);
  if (cpu.depth == 0) return unknown;
  const Handler& innermost = cpu.open[cpu.depth - 1];
  if (innermost.level != wakeup.level) return unknown;
  if (!ends(innermost.kind)) without_end_ = innermost.kind;
  if (innermost.disk) return known(CulpritKind::kDisk);
  switch (innermost.kind) {
    case Handler::Kind::kTimer:
      return known(CulpritKind::kTimer);
    case Handler::Kind::kInterrupt:
      return known(CulpritKind::kInterrupt, innermost.number);
    case Handler::Kind::kSoftirq:
    case Handler::Kind::kNumber:
      break;
  }
  return known(CulpritKind::kSoftirq, innermost.number);
}

// Returns whether the interrupt that a vCPU sent woke the thread. The sender sent it in its current
// exit. The APIC id is KVM's number of the vCPU.
bool WakeCause::is_ipi(const Cpu& cpu, const ThreadChange& wakeup, const Pipeline& of) {
  if (cpu.ipi_from != wakeup.other || cpu.ipi_to == HostEvent::kNotKnown) return false;
  const auto sender = of.vcpu(wakeup.other), woken = of.vcpu(wakeup.thread);
  if (!sender || !woken || sender->where != VcpuState::Where::kKernel) return false;
  const Processes& processes = of.processes();
  return cpu.ipi_at >= sender->begin &&
         (cpu.ipi_to == HostEvent::kAllOthers || cpu.ipi_to == woken->vcpu) &&
         processes.of(wakeup.other, {}) == processes.of(wakeup.thread, {});
}

Culprit WakeCause::of(const ThreadChange& wakeup, const Pipeline& pipeline) {
  static constexpr Cpu kNone;
  const Cpu& cpu = wakeup.cpu < cpus_.size() ? cpus_[wakeup.cpu] : kNone;
  without_end_.reset();
  switch (wakeup.context) {
    case WakeContext::kInterrupt:
      return in_interrupt(cpu, wakeup);
    case WakeContext::kUnknown:
      return unknown_for(Missing::kFlags);
    case WakeContext::kThread:
      break;
  }
  const ThreadId waker = wakeup.other;
  // The idle thread wakes nobody: it took over a wake-up from another CPU. A stopper thread does
  // too.
  const bool passed_on = !wakeup.waking && pipeline.threads().switches().runs_stopper(wakeup.cpu);
  if (waker == ThreadId{} || passed_on) return unknown_for(Missing::kWakeups);
  Culprit culprit = known(CulpritKind::kThread);
  culprit.thread = waker;
  if (is_ipi(cpu, wakeup, pipeline)) {
    culprit.kind = CulpritKind::kIpi;
    return culprit;
  }
  const LastVmmEvent* last = last_vmm_events_.find(waker);
  if (last != nullptr && last->at >= wakeup.since) culprit.handler = last->name;
  if (futexes_.on_wake(wakeup.thread, waker, wakeup.at)) culprit.kind = CulpritKind::kFutex;
  return culprit;
}

}  // namespace trapline
