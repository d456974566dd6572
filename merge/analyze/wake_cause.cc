#include "merge/analyze/wake_cause.h"

#include <algorithm>

#include "backend_ftrace/base/text.h"
#include "merge/analyze/cpu_runners.h"
#include "merge/analyze/pipeline.h"

namespace trapline {
namespace {

constexpr std::uint64_t kCallMask = 0x7f;  // without FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME
// The value of a lock with waiters in glibc, Rust and Go, and how many threads its release wakes.
constexpr std::int32_t kLockedAndWaitedFor = 2, kOneThread = 1;

// Returns the address in "taken mutex 0x55d0 (file.c:12)"; 0 if there is none.
std::uint64_t mutex_in(std::string_view text) {
  constexpr std::string_view kBefore = "mutex 0x";
  const std::size_t found = text.find(kBefore);
  std::uint64_t address = 0;
  if (found == std::string_view::npos) return address;
  text.remove_prefix(found + kBefore.size());
  (void)take_number(text, address, 16);
  return address;
}

}  // namespace

void FutexWakes::on_call(const Event& event, const HostEvent& call) {
  enum Call : std::uint64_t {
    kFutexWait = 0,
    kFutexWake = 1,
    kFutexLockPi = 6,
    kFutexUnlockPi = 7,
    kFutexWaitBitset = 9,
    kFutexWakeBitset = 10,
    kFutexLockPi2 = 13
  };
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr) return;
  thread->called = event.at;
  thread->address = call.address;
  thread->value = call.number;
  thread->woken = 0;
  thread->in_call = true;
  thread->got_wake = false;
  switch (call.call & kCallMask) {
    case kFutexWait:
    case kFutexWaitBitset:
      thread->kind = Kind::kWait;
      if (call.number != kLockedAndWaitedFor && others_.size() < kMostOthers)
        others_.insert(call.address);
      break;
    case kFutexWake:
    case kFutexWakeBitset:
      thread->kind = Kind::kWake;
      break;
    case kFutexLockPi:
    case kFutexLockPi2:
      thread->kind = Kind::kLockPi;
      break;
    case kFutexUnlockPi:
      thread->kind = Kind::kUnlockPi;
      thread->let_go = 0;
      if (thread->held != call.address) break;
      thread->held = 0;
      add({call.address, EventRef(event), event.thread, event.thread, thread->held_since, true});
      thread->let_go = added_;
      break;
    default:
      thread->kind = Kind::kOther;
      break;
  }
  // A thread that waits again for its lock did not get it when woken, or has released it since.
  if (thread->kind == Kind::kWait && thread->held == call.address) thread->held = 0;
  if (thread->kind != Kind::kLockPi) return;
  thread->held = call.address;
  thread->held_since = event.at;
}

void FutexWakes::on_return(ThreadId id, Timestamp at) {
  returns_recorded_ = true;
  Thread* thread = threads_.find(id);
  if (thread == nullptr || !thread->in_call) return;
  thread->in_call = false;
  if (thread->kind == Kind::kLockPi && thread->held == thread->address) thread->held_since = at;
}

void FutexWakes::on_run(const ThreadChange& change) {
  Thread* thread = threads_.find(change.thread);
  const bool slept = change.was == RunState::kWoken || is_asleep(change.was);  // during the call
  if (thread == nullptr || !slept || !thread->in_call) return;
  thread->in_call = returns_recorded_;
  if (thread->kind == Kind::kLockPi && thread->held == thread->address)
    thread->held_since = change.at;
  if (!thread->got_wake) return;
  thread->got_wake = false;
  if (thread->kind != Kind::kWait || thread->value != kLockedAndWaitedFor) return;
  thread->held = thread->address;
  thread->held_since = change.at;
}

bool FutexWakes::on_mutex(ThreadId id, Timestamp at, std::string_view name, std::string_view text) {
  if (!name.starts_with("qemu_mutex_")) return false;
  const bool locked = name == "qemu_mutex_locked";
  if (!locked && name != "qemu_mutex_unlock") return true;
  const std::uint64_t mutex = mutex_in(text);
  Thread* thread = mutex == 0 ? nullptr : threads_.get(id, kMostThreads);
  if (thread == nullptr) return true;
  if (locked) {
    // If its futex calls already showed that the thread got this lock, keeps the time that they
    // gave.
    if (thread->held != mutex) thread->held_since = at;
    thread->held = mutex;
  } else if (thread->held == mutex) {
    thread->held = 0;
  }
  return true;
}

void FutexWakes::on_lost() {
  threads_.clear();
  wakes_.clear();
  added_ = 0;
}

bool FutexWakes::wakes(const Thread& waking, const Thread& waiting, Timestamp at) {
  if (!waking.in_call || !waiting.in_call || waking.address != waiting.address) return false;
  if (waking.called < waiting.called || waking.called > at) return false;
  if (waking.kind == Kind::kUnlockPi) return waiting.kind == Kind::kLockPi;
  return waking.kind == Kind::kWake && waiting.kind == Kind::kWait &&
         (waking.woken < waking.value || waking.value < 0);
}

void FutexWakes::add(const Wake& wake) {
  if (wakes_.size() == kMostWakes) wakes_.pop_front();
  wakes_.push_back(wake);
  ++added_;
}

Timestamp FutexWakes::held_until_woken(const Thread& waking) {
  if (waking.let_go == 0) return {};
  if (added_ - waking.let_go < wakes_.size()) wake_at(waking.let_go - 1).address = 0;
  return waking.held_since;
}

bool FutexWakes::on_wake(const ThreadChange& wakeup) {
  Thread* waiting = threads_.find(wakeup.thread);
  Thread* waking = threads_.find(wakeup.other);
  if (waiting == nullptr || waking == nullptr || !wakes(*waking, *waiting, wakeup.at)) return false;
  Wake wake{waking->address, EventRef(wakeup), wakeup.other, wakeup.thread};
  ++waking->woken;
  waiting->got_wake = true;
  if (waking->kind == Kind::kUnlockPi) {
    wake.held_since = held_until_woken(*waking);
    wake.pi = true;
    add(wake);
    return true;
  }
  const bool like_a_lock = waking->value == kOneThread && waiting->value == kLockedAndWaitedFor;
  const bool held = waking->held == waking->address && like_a_lock && may_be_lock(waking->address);
  if (held) wake.held_since = waking->held_since;
  add(wake);
  if (waking->held == waking->address) waking->held = 0;
  return true;
}

// Futexes of several processes may have the same address. So of the wake-ups at the last one's
// address, only those count whose threads are connected with it by such wake-ups, and the locks
// that these threads released.
const std::vector<FutexWakes::Piece>& FutexWakes::pieces(Timestamp since) {
  pieces_.clear();
  chain_.clear();
  let_go_.clear();
  if (added_ == 0) return pieces_;
  const Wake& last = wake_at(added_ - 1);
  const std::uint64_t oldest = added_ - wakes_.size();
  std::vector<ThreadId> same_futex{last.waking, last.waiting};
  const auto knows = [&](ThreadId thread) {
    return std::ranges::find(same_futex, thread) != same_futex.end();
  };
  std::uint64_t number = added_;
  for (; number > oldest && wake_at(number - 1).by.at() > since; --number) {
    const Wake& wake = wake_at(number - 1);
    if (wake.address != last.address) continue;
    if (wake.waking == wake.waiting) {
      let_go_.push_back(number - 1);
      continue;
    }
    if (!knows(wake.waking) && !knows(wake.waiting)) continue;
    chain_.push_back(number - 1);
    for (const ThreadId thread : {wake.waking, wake.waiting})
      if (!knows(thread)) same_futex.push_back(thread);
  }
  for (const std::uint64_t alone : let_go_)
    if (knows(wake_at(alone).waking)) chain_.push_back(alone);
  std::sort(chain_.begin(), chain_.end());
  Timestamp begin = since;
  const auto charge = [&](const ProvenCulprit& culprit, Timestamp end) {
    if (end <= begin) return;
    pieces_.push_back({culprit, end});
    begin = end;
  };
  const bool forgotten = number == oldest && oldest != 0 && wake_at(oldest).by.at() > since;
  if (forgotten) charge(ProvenCulprit(Missing::kRoom), wake_at(oldest).by.at());
  for (const std::uint64_t link : chain_) {
    const Wake& wake = wake_at(link);
    const bool held = wake.pi || wake.held_since != Timestamp();
    const ProvenCulprit waker({.kind = CulpritKind::kFutex, .thread = wake.waking}, wake.by);
    charge(waker, wake.held_since);
    charge(held ? waker.as(CulpritKind::kLock) : waker, wake.by.at());
  }
  return pieces_;
}

WakeCause::Cpu* WakeCause::cpu_of(std::uint32_t cpu) {
  if (cpu >= CpuRunners::kMostCpus) return nullptr;
  if (cpu >= cpus_.size()) cpus_.resize(cpu + 1);
  return &cpus_[cpu];
}

void WakeCause::begin(Cpu& cpu, Handler handler) {
  // More than kMostHandlers are never open at once, so the ends of the open ones were not recorded.
  if (cpu.depth == kMostHandlers) cpu.depth = 0;
  cpu.open[cpu.depth++] = handler;
}

// Ends a handler, and those that began inside it. An end without a begin belongs to a handler that
// was open before the recording or before the CPU's last switch.
void WakeCause::end(Cpu& cpu, HandlerKind kind) {
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
  using enum HostStep;
  using Kind = HandlerKind;
  using Level = InterruptLevel;
  const auto number = static_cast<std::uint32_t>(host.number);
  if (host.step == kTimerBegin) return begin(*cpu, {Kind::kTimer, host.level, false, 0});
  if (host.step == kTimerEnd) return end(*cpu, Kind::kTimer);
  if (host.step == kIrqBegin) return begin(*cpu, {Kind::kInterrupt, Level::kHard, false, number});
  if (host.step == kIrqEnd) return end(*cpu, Kind::kInterrupt);
  if (host.step == kSoftirqBegin) return begin(*cpu, {Kind::kSoftirq, Level::kSoft, false, number});
  if (host.step == kSoftirqEnd) return end(*cpu, Kind::kSoftirq);
  if (host.step == kFutex) return futexes_.on_call(event, host);
  if (host.step == kFutexEnd) return futexes_.on_return(event.thread, event.at);
  if (host.step != kIpi) return;
  cpu->ipi_at = event.at;
  cpu->ipi_from = event.thread;
  cpu->ipi_to = host.number;
}

// A read or write that ended in a thread's context, or in an interrupt without a known handler,
// shows nothing about later wake-ups of that CPU.
void WakeCause::on_disk(std::uint32_t on, const BlockIo& block) {
  Cpu* cpu = cpu_of(on);
  if (cpu == nullptr || cpu->depth == 0 || block.level == InterruptLevel::kNone) return;
  Handler& innermost = cpu->open[cpu->depth - 1];
  if (innermost.level == block.level) innermost.disk = true;
}

// Ends the CPU's open handlers, as no interrupt lasts over a switch: their ends were lost.
void WakeCause::on_run(const ThreadChange& change) {
  if (change.cpu < cpus_.size()) cpus_[change.cpu] = {};
  futexes_.on_run(change);
}

void WakeCause::on_lost(std::uint32_t cpu) {
  if (cpu < cpus_.size()) cpus_[cpu] = {};
  futexes_.on_lost();
}

void WakeCause::on_vmm_event(const Event& event, NameId name, std::string_view text,
                             const Pipeline& of) {
  if (futexes_.on_mutex(event.thread, event.at, of.names()[name], text)) return;
  if (LastVmmEvent* last = last_vmm_events_.get(event.thread, kMostThreads))
    *last = {event.at, name};
}

ProvenCulprit WakeCause::in_interrupt(const Cpu& cpu, const ThreadChange& wakeup) {
  // sched_wakeup may come in the interrupt by which another CPU passed the wake-up on.
  const ProvenCulprit unknown(wakeup.waking ? Missing::kContext : Missing::kWakeups);
  if (cpu.depth == 0) return unknown;
  const Handler& innermost = cpu.open[cpu.depth - 1];
  if (innermost.level != wakeup.level) return unknown;
  without_end_ = ends(innermost.kind) ? HandlerKind::kNone : innermost.kind;
  if (innermost.disk) return ProvenCulprit({.kind = CulpritKind::kDisk}, EventRef(wakeup));
  constexpr CulpritKind kOf[] = {CulpritKind::kUnknown, CulpritKind::kTimer,
                                 CulpritKind::kInterrupt, CulpritKind::kSoftirq};
  const CulpritKind kind = kOf[static_cast<std::size_t>(innermost.kind)];
  return ProvenCulprit({.kind = kind, .number = innermost.number}, EventRef(wakeup));
}

// Returns whether an interrupt that a vCPU sent in its current exit woke the thread. The APIC id is
// taken to be KVM's number of the vCPU.
bool WakeCause::is_ipi(const Cpu& cpu, const ThreadChange& wakeup, const Pipeline& of) {
  if (cpu.ipi_from != wakeup.other || cpu.ipi_to == HostEvent::kNotKnown) return false;
  const auto sender = of.vcpu(wakeup.other), woken = of.vcpu(wakeup.thread);
  if (!sender || !woken || sender->where != VcpuState::Where::kKernel) return false;
  return cpu.ipi_at >= sender->begin &&
         (cpu.ipi_to == HostEvent::kAllOthers || cpu.ipi_to == woken->vcpu) &&
         of.process_of(wakeup.other) == of.process_of(wakeup.thread);
}

ProvenCulprit WakeCause::of(const ThreadChange& wakeup, const Pipeline& pipeline) {
  static constexpr Cpu kNone;
  const Cpu& cpu = wakeup.cpu < cpus_.size() ? cpus_[wakeup.cpu] : kNone;
  without_end_ = HandlerKind::kNone;
  switch (wakeup.context) {
    case WakeContext::kInterrupt:
      return in_interrupt(cpu, wakeup);
    case WakeContext::kUnknown:
      return ProvenCulprit(Missing::kFlags);
    case WakeContext::kThread:
      break;
  }
  const ThreadId waker = wakeup.other;
  // The idle thread wakes nobody itself: it carries out a wake-up for another CPU, as a stopper
  // thread does.
  const bool passed_on = !wakeup.waking && pipeline.threads().switches().runs_stopper(wakeup.cpu);
  if (waker == ThreadId{} || passed_on) return ProvenCulprit(Missing::kWakeups);
  ProvenCulprit culprit({.kind = CulpritKind::kThread, .thread = waker}, EventRef(wakeup));
  if (is_ipi(cpu, wakeup, pipeline)) return culprit.as(CulpritKind::kIpi);
  const LastVmmEvent* last = last_vmm_events_.find(waker);
  if (last != nullptr && last->at >= wakeup.since) culprit.set_handler(last->name);
  return futexes_.on_wake(wakeup) ? culprit.as(CulpritKind::kFutex) : culprit;
}

}  // namespace trapline
