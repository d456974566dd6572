#include "merge/analyze/irq_deliveries.h"

#include <utility>

namespace trapline {

void IrqDeliveries::on_notify(const Event& event, ThreadId process, std::uint64_t vq,
                              std::vector<RequestSpan> requests) {
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr) return;
  held_.add(*thread);
  thread->state = Thread::State::kNotified;
  thread->queue = {process, vq};
  thread->requests = std::move(requests);
}

std::vector<RequestSpan> IrqDeliveries::take(ThreadId id) {
  Thread* thread = threads_.find(id);
  if (thread == nullptr || thread->state == Thread::State::kIdle) return {};
  thread->state = Thread::State::kIdle;
  return std::exchange(thread->requests, {});
}

void IrqDeliveries::raise(Thread& thread, const Route& route) {
  if (thread.state != Thread::State::kNotified) {
    thread.state = Thread::State::kIdle;  // a second one: not of this notify alone
    thread.requests.clear();
    return;
  }
  thread.state = Thread::State::kRaised;
  thread.route = route;
  const auto known = routes_.find(thread.queue);
  if (known != routes_.end() && known->second != route) {
    ++ambiguous_;
    thread.state = Thread::State::kIdle;
    thread.requests.clear();
  }
  if (known != routes_.end() || routes_.size() < kMost) routes_[thread.queue] = route;
}

void IrqDeliveries::pend(Thread& thread, const Key& key) {
  thread.state = Thread::State::kIdle;
  std::vector<RequestSpan> requests = std::exchange(thread.requests, {});
  if (pending_count_ + requests.size() > kMost) {  // interrupts are raised and none is injected
    ++ambiguous_;
    return;
  }
  pending_count_ += requests.size();
  auto& waiting = pending_[key];
  waiting.insert(waiting.end(), requests.begin(), requests.end());
}

void IrqDeliveries::deliver(const Key& key, Timestamp at, bool posted) {
  const auto found = pending_.find(key);
  // An injection that is told late may be older than what waits.
  if (found == pending_.end() || at < found->second.back().end) return;
  for (const RequestSpan& request : found->second) delivered_.push_back({request, at, posted});
  pending_count_ -= found->second.size();
  pending_.erase(found);
}

void IrqDeliveries::on_inject(const Event& event, const KvmIrq& irq, ThreadId process) {
  if (!irq.level) return;
  if (irq.vcpu != kNoVcpu) return deliver({process, irq.vcpu, irq.vector}, event.at, true);
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr) return;
  if (thread->vcpu != kNoVcpu) return deliver({process, thread->vcpu, irq.vector}, event.at);
  held_.add(*thread);
  if (thread->early.size() < kMostEarly) thread->early.emplace_back(irq.vector, event.at);
}

void IrqDeliveries::on_irq(const Event& event, const KvmIrq& irq, ThreadId process) {
  Thread* thread = threads_.find(event.thread);
  if (irq.step == IrqStep::kInject) return on_inject(event, irq, process);
  if (thread == nullptr || thread->state == Thread::State::kIdle) return;
  const bool raised = thread->state == Thread::State::kRaised;
  switch (irq.step) {
    case IrqStep::kMsi:
      return raise(*thread, {IrqStep::kMsi, irq.vector});
    case IrqStep::kLine:
      if (irq.level) return raise(*thread, {IrqStep::kLine, irq.pin});
      return on_other(event.thread);
    case IrqStep::kAccept:
      if (!raised) return on_other(event.thread);
      if (thread->route.step == IrqStep::kMsi && thread->route.number != irq.vector) {
        return on_other(event.thread);
      }
      return pend(*thread, {process, irq.vcpu, irq.vector});
    case IrqStep::kRoute:  // the IOAPIC is done, and no vCPU accepted: one that was pending already
      return on_other(event.thread);
    case IrqStep::kPending:
      if (!raised || !irq.level || thread->route.step != IrqStep::kLine) {
        return on_other(event.thread);
      }
      return pend(*thread, {process, irq.vcpu, irq.pin | kSpi});
    default:
      return;
  }
}

void IrqDeliveries::on_entry(const Event& event, const KvmEntry& entry, ThreadId process) {
  on_other(event.thread);
  Thread* thread = threads_.get(event.thread, kMostThreads);
  if (thread == nullptr) return;
  if (entry.vcpu != kNoVcpu) thread->vcpu = entry.vcpu;
  if (entry.vcpu != kNoVcpu && !thread->early.empty()) {
    for (const auto& [vector, at] : std::exchange(thread->early, {}))
      deliver({process, thread->vcpu, vector}, at);
  }
  if (pending_.empty()) return;
  for (auto next = pending_.lower_bound({process, thread->vcpu, kSpi});
       next != pending_.end() && std::get<0>(next->first) == process &&
       std::get<1>(next->first) == thread->vcpu;
       next = pending_.lower_bound({process, thread->vcpu, kSpi})) {
    deliver(next->first, event.at);
  }
}

std::span<const Delivered> IrqDeliveries::on(const Event& event, ThreadId process) {
  delivered_.clear();
  if (const auto* irq = std::get_if<KvmIrq>(&event.payload)) {
    on_irq(event, *irq, process);
  } else if (const auto* sched = std::get_if<SchedSwitch>(&event.payload)) {
    if (!sched->runnable) on_other(sched->prev);
  } else if (const auto* exit = std::get_if<KvmExit>(&event.payload)) {
    Thread* thread = threads_.get(event.thread, kMostThreads);
    if (thread != nullptr && exit->vcpu != kNoVcpu) thread->vcpu = exit->vcpu;
  } else if (const auto* reload = std::get_if<KvmStateLoad>(&event.payload)) {
    on_other(event.thread);
    Thread* thread = threads_.get(event.thread, kMostThreads);
    if (thread != nullptr && reload->vcpu != kNoVcpu) thread->vcpu = reload->vcpu;
  } else if (const auto* entry = std::get_if<KvmEntry>(&event.payload)) {
    on_entry(event, *entry, process);
  }
  return delivered_;
}

void IrqDeliveries::on_hole() {
  held_.end([](Thread& thread) {
    thread.state = Thread::State::kIdle;
    thread.requests.clear();
    thread.early.clear();
  });
  pending_.clear();
  pending_count_ = 0;
}

}  // namespace trapline
