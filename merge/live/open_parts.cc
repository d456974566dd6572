#include "merge/live/open_parts.h"

namespace trapline::live {
namespace {

// Events that only a thread on a CPU makes, as ExitTracker takes them.
bool shows_that_it_runs(const Payload& payload) {
  return std::holds_alternative<KvmExit>(payload) || std::holds_alternative<KvmEntry>(payload) ||
         std::holds_alternative<KvmUserspaceExit>(payload) ||
         std::holds_alternative<Marker>(payload);
}

}  // namespace

// Sums up to `at`, and sees where the thread is from there on.
void OpenParts::look_at(ThreadId id, Timestamp at, const Pipeline& pipeline) {
  const std::optional<VcpuState> now = pipeline.vcpu(id);
  if (!now) return;
  Thread* const thread = threads_.get(id, ExitTracker::kMostThreads);
  if (thread == nullptr) return;
  const bool in_exit =
      now->where == VcpuState::Where::kKernel || now->where == VcpuState::Where::kUser;
  if (!in_exit || !thread->open || thread->begin != now->begin) {
    thread->open = in_exit;
    thread->begin = thread->mark = now->begin;
    thread->parts = {};
    if (in_exit) thread->off_cpu = thread->asleep = false;
  } else if (at > thread->mark) {
    thread->parts[static_cast<std::size_t>(thread->part)] += elapsed(thread->mark, at);
    thread->mark = at;
  }
  thread->part = thread->off_cpu ? (thread->asleep ? Part::kBlocked : Part::kPreempted)
                 : now->where == VcpuState::Where::kUser ? Part::kUser
                                                         : Part::kKernel;
}

void OpenParts::on_switch(const SchedSwitch& sched, Timestamp at, const Pipeline& pipeline) {
  if (Thread* prev = threads_.find(sched.prev); prev != nullptr) {
    prev->off_cpu = true;
    prev->asleep = !sched.runnable;
    look_at(sched.prev, at, pipeline);
  }
  if (Thread* next = threads_.find(sched.next); next != nullptr) {
    next->off_cpu = next->asleep = false;
    look_at(sched.next, at, pipeline);
  }
}

void OpenParts::on(const Event& event, const Pipeline& pipeline) {
  if (is_guest(event.machine)) return;
  if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) {
    return on_switch(*sched, event.at, pipeline);
  }
  if (const auto* woken = std::get_if<SchedWakeup>(&event.payload)) {
    Thread* const thread = threads_.find(woken->thread);
    if (thread == nullptr || !thread->asleep) return;
    thread->asleep = false;
    return look_at(woken->thread, event.at, pipeline);
  }
  const bool runs = shows_that_it_runs(event.payload);
  if (!runs && !std::holds_alternative<IoctlEnter>(event.payload) &&
      !std::holds_alternative<KvmStateLoad>(event.payload)) {
    return;
  }
  if (Thread* thread = threads_.find(event.thread); runs && thread != nullptr) {
    thread->off_cpu = thread->asleep = false;
  }
  look_at(event.thread, event.at, pipeline);
}

VcpuTotals OpenParts::at(Timestamp now, const VcpuTotalsOf& ended, const Pipeline& pipeline) const {
  VcpuTotals totals = ended.totals;
  const std::optional<VcpuState> state = pipeline.vcpu(ended.thread);
  if (!state) return totals;
  if (state->where == VcpuState::Where::kGuest) {
    totals.guest_ns += elapsed(state->begin, now);
    return totals;
  }
  const Thread* const thread = threads_.find(ended.thread);
  if (thread == nullptr || !thread->open || thread->begin != state->begin ||
      state->where == VcpuState::Where::kUnknown) {
    return totals;
  }
  Parts parts = thread->parts;
  parts[static_cast<std::size_t>(thread->part)] += elapsed(thread->mark, now);
  for (std::size_t i = 0; i < kParts; ++i) {
    totals.parts[i] += parts[i];
    if (is_halt(state->reason)) totals.halt_ns += parts[i];
  }
  return totals;
}

}  // namespace trapline::live
