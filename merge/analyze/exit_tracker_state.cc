// What may be asked of an ExitTracker between two events and at the end: off the way of each event.
#include "merge/analyze/exit_tracker.h"

namespace trapline {

OpenExit ExitTracker::open_exit(ThreadId thread, const Thread& state) {
  OpenExit open{thread, state.totals.vcpu, state.span.start, state.span.reason, {}};
  if (state.phase == Thread::Phase::kEnded) open.end = state.mark;
  return open;
}

std::vector<OpenExit> ExitTracker::open() const {
  std::vector<OpenExit> exits;
  for (const auto& [thread, state] : threads_.entries()) {
    if (!state.is_vcpu || state.phase < Thread::Phase::kExit) continue;
    exits.push_back(open_exit(thread, state));
  }
  return exits;
}

std::optional<OpenExit> ExitTracker::open(ThreadId thread) const {
  const Thread* state = threads_.find(thread);
  if (state == nullptr || state->phase < Thread::Phase::kExit) return std::nullopt;
  return open_exit(thread, *state);
}

std::vector<VcpuTotalsOf> ExitTracker::vcpus() const {
  std::vector<VcpuTotalsOf> vcpus;
  for (const auto& [thread, state] : threads_.entries()) {
    if (state.is_vcpu) vcpus.push_back({thread, state.totals});
  }
  return vcpus;
}

std::vector<VcpuTotalsOf> ExitTracker::vcpus_at(Timestamp now) const {
  std::vector<VcpuTotalsOf> vcpus = this->vcpus();
  if (closed_) return vcpus;
  for (auto& [id, totals] : vcpus) {
    const Thread& thread = *threads_.find(id);
    if (thread.phase == Thread::Phase::kGone) continue;
    const bool halted = in_exit(thread) && is_all_halted(thread);
    totals.of(halted ? State::kHalted : open_state(thread)) += elapsed(thread.mark, now);
    if (!in_exit(thread) && thread.phase != Thread::Phase::kEnded) continue;
    for (std::size_t i = 0; i < kParts; ++i) {
      const State state = halted ? State::kHalted : static_cast<State>(i);
      totals.of(state) += thread.span.parts[i];
    }
  }
  return vcpus;
}

std::optional<StateNow> ExitTracker::state_now(ThreadId thread) const {
  const Thread* state = threads_.find(thread);
  if (state == nullptr || !state->is_vcpu || state->phase == Thread::Phase::kGone)
    return std::nullopt;
  StateNow now;
  now.state = open_state(*state);
  now.vcpu = state->totals.vcpu;
  now.since = state->mark;
  if (!in_exit(*state)) return now;
  if (is_all_halted(*state)) now.state = State::kHalted;
  now.reason = state->span.reason;
  now.since = state->span.start;
  now.halted_ns = state->span.parts[static_cast<std::size_t>(Part::kHalted)];
  return now;
}

// Offline: arm64 tells by PSCI's call alone, RISC-V not at all, x86 by what KVM_RUN returns.
// Paused: by a signal, which the scheduler tells, or by the VMM, where its event is traced.
States ExitTracker::known_states() const {
  States known = lacks_entries() ? States() : model_.known_states();
  if (!known.any() || !model_.sched_switch) return known;
  known.set(static_cast<std::size_t>(State::kPaused), saw_vm_state_);
  bool offline = model_.userspace_exits && !model_.from_userspace_exit;
  for (const auto& [thread, state] : threads_.entries()) {
    if (state.span.reason.isa == kIsaRiscv) offline = false;
    if (state.span.reason.isa == kIsaArm64) offline = saw_hypercall_;
  }
  known.set(static_cast<std::size_t>(State::kOffline), offline);
  return known;
}

std::optional<VcpuState> ExitTracker::state(ThreadId thread) const {
  const Thread* state = threads_.find(thread);
  if (state == nullptr || !state->is_vcpu) return std::nullopt;
  VcpuState result;
  result.vcpu = state->totals.vcpu;
  result.off_cpu = state->off_since;
  result.user_begin = state->user_begin;
  if (state->phase == Thread::Phase::kGuest) {
    result.where = VcpuState::Where::kGuest;
    result.begin = state->mark;
  } else if (in_exit(*state)) {
    result.where = state->in_user ? VcpuState::Where::kUser : VcpuState::Where::kKernel;
    result.begin = state->span.start;
    result.reason = state->span.reason;
  }
  return result;
}

const ExitSpan* ExitTracker::finish() {
  while (finished_ < threads_.entries().size()) {
    Thread& thread = threads_.entries()[finished_++].state;
    if (thread.phase == Thread::Phase::kExit && !thread.is_cut) ++counters_.exit_without_entry;
    if (thread.phase == Thread::Phase::kEnded) return emit(thread);
  }
  return nullptr;
}

}  // namespace trapline
