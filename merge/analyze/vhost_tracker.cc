#include "merge/analyze/vhost_tracker.h"

namespace trapline {

void VhostTracker::add_piece(Turn& turn, TurnPart part, Timestamp end) {
  if (turn.kept.size() < kMostPieces) {
    turn.kept.push_back({part, turn.since, end});
  } else {
    turn.all_pieces = false;
  }
}

void VhostTracker::end(ThreadId thread_id, Thread& thread, Timestamp at) {
  Turn& turn = *thread.turn;
  Worker& worker = thread.worker;
  if (turn.ran_at != Timestamp()) {
    ++worker.turns;
    worker.to_run.add(elapsed(turn.woken, turn.ran_at));
    worker.ran.add(turn.ran_ns);
    worker.preempted_ns += turn.preempted_ns;
    if (turn.notify) ++worker.notified;
    if (turn.notify && turn.raised)
      worker.notify_to_interrupt.add(elapsed(*turn.notify, *turn.raised));
    ended_pieces_ = std::move(turn.kept);
    if (!turn.all_pieces) ended_pieces_.clear();
    ended_ = turn;
    ended_->worker = thread_id;
    ended_->process = worker.process;
    ended_->name = worker.name;
    ended_->end = at;
    ended_->pieces = ended_pieces_;
  }
  thread.turn.reset();
}

void VhostTracker::on_leave(const ThreadChange& change) {
  Thread* thread = threads_.find(change.thread);
  if (thread == nullptr || !thread->turn) return;
  Turn& turn = *thread->turn;
  if (turn.running) {
    turn.ran_ns += elapsed(turn.since, change.at);
    add_piece(turn, TurnPart::kRuns, change.at);
  } else {
    turn.all_pieces = false;  // it is not known when the worker began to run
  }
  turn.running = false;
  turn.since = change.at;
  if (change.sleeps()) end(change.thread, *thread, change.at);
}

void VhostTracker::on_run(const ThreadChange& change, const Processes& processes) {
  if (!change.name.starts_with("vhost-")) return;
  Thread* thread = threads_.get(change.thread, kMostWorkers);
  if (thread == nullptr) return;
  if (thread->worker.name.empty()) {
    thread->worker.name = change.name;
    thread->worker.process = processes.of(processes.now(process_in_name(change.name)), {});
  }
  if (!thread->turn) return;
  Turn& turn = *thread->turn;
  if (turn.ran_at == Timestamp())
    turn.ran_at = change.at;
  else
    turn.preempted_ns += elapsed(turn.since, change.at);
  if (!turn.running) add_piece(turn, TurnPart::kWaits, change.at);
  turn.running = true;
  turn.since = change.at;
}

void VhostTracker::on_wakeup(const ThreadChange& change) {
  Thread* woken = threads_.find(change.thread);
  if (woken == nullptr || woken->turn) return;  // sched_wakeup reports the same wake-up once more
  Turn& turn = woken->turn.emplace(Turn{});
  turn.woken = turn.since = change.at;
  const Exit* exit = exits_.find(change.other);
  if (change.context == WakeContext::kInterrupt || exit == nullptr || !exit->in_kernel) return;
  turn.notifier = change.other;
  turn.exit = exit->begin;
  if (exit->wrote) turn.notify = exit->begin;
}

// Notes a vCPU's write, also for a turn that the exit has already begun: kvm_fast_mmio comes after
// the wake-up, kvm_pio and kvm_mmio before it.
void VhostTracker::on_write(ThreadId vcpu) {
  Exit* exit = exits_.find(vcpu);
  if (exit == nullptr || !exit->in_kernel) return;
  exit->wrote = true;
  for (auto& entry : threads_.entries()) {
    std::optional<Turn>& turn = entry.state.turn;
    if (turn && turn->notifier == vcpu && turn->exit == exit->begin) turn->notify = exit->begin;
  }
}

// Has the interrupt that a vhost worker raises followed to its injection, as if it told the guest
// of the end of a request.
void VhostTracker::on_raise(const Event& event, const KvmIrq& irq, IrqTracker& interrupts) {
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr) return;
  if (irq.step != IrqStep::kMsi && !(irq.step == IrqStep::kLine && irq.level)) return;
  ++thread->worker.interrupts;
  if (thread->turn && !thread->turn->raised) thread->turn->raised = event.at;
  RequestSpan raised;
  raised.start = raised.end = event.at;
  raised.thread = event.thread;
  const std::uint64_t way = irq.step == IrqStep::kMsi ? irq.vector : irq.pin;
  interrupts.on_notify(event, thread->worker.process, way, {raised});
}

bool VhostTracker::on_delivered(const Delivered& delivered) {
  Thread* thread = threads_.find(delivered.request.thread);
  if (thread == nullptr) return false;
  thread->worker.to_injection.add(elapsed(delivered.request.end, delivered.injected));
  return true;
}

}  // namespace trapline
