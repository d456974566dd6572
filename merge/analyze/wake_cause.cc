#include "merge/analyze/wake_cause.h"

#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "merge/analyze/cpu_runners.h"
#include "merge/analyze/pipeline.h"

namespace trapline {
namespace {

constexpr std::pair<std::string_view, WaitEvent> kNames[] = {
    {"sched:sched_waking", WaitEvent::kWaking},
    {"sched:sched_wakeup", WaitEvent::kWakeup},
    {"sched:sched_migrate_task", WaitEvent::kMigrate},
    {"timer:hrtimer_expire_entry", WaitEvent::kTimerBegin},
    {"timer:hrtimer_expire_exit", WaitEvent::kTimerEnd},
    {"timer:timer_expire_entry", WaitEvent::kTimerBegin},
    {"timer:timer_expire_exit", WaitEvent::kTimerEnd},
    {"irq:irq_handler_entry", WaitEvent::kIrqBegin},
    {"irq:irq_handler_exit", WaitEvent::kIrqEnd},
    {"block:block_rq_complete", WaitEvent::kDisk},
    {"kvm:kvm_apic_ipi", WaitEvent::kIpi},
    {"irq:softirq_entry", WaitEvent::kSoftirqBegin},
    {"irq:softirq_exit", WaitEvent::kSoftirqEnd},
    {"syscalls:sys_enter_futex", WaitEvent::kFutex}};

// Bytes of struct trace_entry and of the scheduler's events.
constexpr std::size_t kFlags = 2, kFirstField = 8, kThreadField = 24, kDestination = 36;
// Of a system call's first and second argument, 64 bits each.
constexpr std::size_t kFutexAddress = 16, kFutexCall = 24;
constexpr std::uint64_t kFutexCallMask = 0x7f;  // without FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME
constexpr unsigned kHardOrSoftIrq = 0x18;       // TRACE_FLAG_HARDIRQ | TRACE_FLAG_SOFTIRQ

std::int32_t number_at(const Event& event, std::size_t at, std::int32_t otherwise) {
  if (event.raw.size() < at + sizeof(std::int32_t)) return otherwise;
  std::int32_t value = 0;
  std::memcpy(&value, event.raw.data() + at, sizeof value);
  return value;
}

std::uint64_t argument_at(const Event& event, std::size_t at) {
  std::uint64_t value = 0;
  if (event.raw.size() < at + sizeof value) return 0;
  std::memcpy(&value, event.raw.data() + at, sizeof value);
  return value;
}

enum class Context : std::uint8_t { kUnknown, kThread, kInterrupt };
Context context_of(const Event& event) {
  if (event.raw.size() < kFirstField) return Context::kUnknown;
  const auto flags = std::to_integer<unsigned>(event.raw[kFlags]);
  return (flags & kHardOrSoftIrq) != 0 ? Context::kInterrupt : Context::kThread;
}

Culprit unknown(Missing missing) {
  Culprit culprit;
  culprit.missing = missing;
  return culprit;
}

Culprit known(CulpritKind kind, std::uint32_t number = 0) {
  Culprit culprit;
  culprit.kind = kind;
  culprit.number = number;
  return culprit;
}

}  // namespace

WaitEvent WaitEvents::of(const Event& event) {
  if (event.source >= kinds_.size()) kinds_.resize(event.source + std::size_t{1});
  auto& types = kinds_[event.source];
  if (event.type >= types.size()) types.resize(event.type + std::size_t{1});
  WaitEvent& kind = types[event.type];
  if (kind != WaitEvent::kNotAsked) [[likely]]
    return kind;
  kind = WaitEvent::kOther;
  const std::string name = namer_(event);
  for (const auto& [known_name, known_kind] : kNames) {
    if (name == known_name) kind = known_kind;
  }
  return kind;
}

// target_cpu is the last field of both, after `success` in kernels that have that one.
std::int32_t woken_cpu(const Event& event) {
  constexpr std::size_t kShortest = 36;
  return event.raw.size() < kShortest ? kNoCpu : number_at(event, event.raw.size() - 4, kNoCpu);
}
ThreadId migrated(const Event& event) { return ThreadId{number_at(event, kThreadField, -1)}; }
std::int32_t migrated_to(const Event& event) { return number_at(event, kDestination, kNoCpu); }

bool is_of_its_thread(const Event& event) {
  return context_of(event) == Context::kThread && event.thread != ThreadId{};
}

std::uint32_t interrupt_number(const Event& event) {
  return static_cast<std::uint32_t>(number_at(event, kFirstField, 0));
}

WakeCause::Cpu* WakeCause::cpu_of(std::uint32_t cpu) {
  if (cpu >= CpuRunners::kMostCpus) return nullptr;
  if (cpu >= cpus_.size()) cpus_.resize(cpu + 1);
  return &cpus_[cpu];
}

void WakeCause::on(const Event& event, WaitEvent kind) {
  Cpu* cpu = cpu_of(event.cpu);
  if (cpu == nullptr) return;
  switch (kind) {
    case WaitEvent::kTimerBegin:
    case WaitEvent::kTimerEnd:
      cpu->in_timer = kind == WaitEvent::kTimerBegin;
      break;
    case WaitEvent::kIrqBegin:
    case WaitEvent::kIrqEnd:
      cpu->in_irq = kind == WaitEvent::kIrqBegin;
      cpu->irq = interrupt_number(event);
      cpu->disk = false;
      break;
    case WaitEvent::kDisk:
      cpu->disk = true;
      break;
    case WaitEvent::kIpi:
      cpu->ipi_at = event.at;
      cpu->ipi_from = event.thread;
      break;
    case WaitEvent::kFutex:
      on_futex(event);
      break;
    default:
      break;
  }
}

// A lock of glibc sleeps in FUTEX_WAIT and lets go in FUTEX_WAKE; its condition variables and
// semaphores sleep in FUTEX_WAIT_BITSET.
void WakeCause::on_futex(const Event& event) {
  enum Call : std::uint64_t { kWait = 0, kWake = 1, kLockPi = 6, kUnlockPi = 7, kLockPi2 = 13 };
  Futex* futex = futexes_.get(event.thread, kMostThreads);
  if (futex == nullptr) return;
  *futex = {event.at, argument_at(event, kFutexAddress), Futex::Call::kOther};
  switch (argument_at(event, kFutexCall) & kFutexCallMask) {
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

bool WakeCause::lets_go_of_lock(const Event& event, Timestamp since) const {
  const auto* wakeup = std::get_if<SchedWakeup>(&event.payload);
  const Futex* waits = wakeup == nullptr ? nullptr : futexes_.find(wakeup->thread);
  const Futex* wakes = futexes_.find(event.thread);
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

Culprit WakeCause::of(const Event& event, WaitEvent kind, Timestamp since,
                      const Pipeline& pipeline) const {
  const Cpu cpu = event.cpu < cpus_.size() ? cpus_[event.cpu] : Cpu{};
  switch (context_of(event)) {
    case Context::kInterrupt:
      if (cpu.disk) return known(CulpritKind::kDisk);
      if (cpu.in_timer) return known(CulpritKind::kTimer);
      if (cpu.in_irq) return known(CulpritKind::kInterrupt, cpu.irq);
      // sched_wakeup may come in the interrupt by which another CPU passed the wake-up on.
      return unknown(kind == WaitEvent::kWakeup ? Missing::kWakeups : Missing::kContext);
    case Context::kUnknown:
      return unknown(Missing::kContext);
    case Context::kThread:
      break;
  }
  // The idle thread wakes nobody: it took over a wake-up from another CPU.
  if (event.thread == ThreadId{}) return unknown(Missing::kWakeups);
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
  if (lets_go_of_lock(event, since)) culprit.kind = CulpritKind::kLock;
  return culprit;
}

}  // namespace trapline
