#include "merge/analyze/irq_tracker.h"

#include <utility>

namespace trapline {
namespace {

constexpr std::size_t kMostThreads = 1u << 16;
constexpr std::size_t kMostPerEntry = 256;

}  // namespace

void IrqTracker::pend(const Key& key, const Event& event) {
  // A raise is told of once, right before the vCPU accepts it.
  Raise raised;
  if (Raise* raise = raises_.find(event.thread)) raised = std::exchange(*raise, Raise{});
  const auto [place, is_new] = pending_.try_emplace(key);
  if (!is_new) {
    ++coalesced_;
    return;
  }
  if (pending_.size() > kMost) {
    pending_.erase(place);
    return;
  }
  IrqSpan& span = place->second;
  span.vector = std::get<2>(key);
  span.raised = event.at;
  if (!raised.open || raised.routed) return;
  span.origin = raised.origin;
  span.pin = raised.pin;
  span.raised = raised.at;
}

bool IrqTracker::inject(const Key& key, Timestamp at) {
  const auto found = pending_.find(key);
  // An injection that is told late may be older than what waits.
  if (found == pending_.end() || at < found->second.raised) return false;
  found->second.injected = at;
  if (active_.size() < kMost) active_[key] = found->second;
  pending_.erase(found);
  return true;
}

// The raise stays: the IOAPIC has the same line, and its interrupt may be the one that is accepted.
void IrqTracker::latch(const KvmIrq& irq, const Event& event, ThreadId process) {
  const Raise* raise = raises_.find(event.thread);
  if (!irq.level || raise == nullptr || !raise->open) return;
  IrqSpan span;
  span.origin = raise->origin;
  span.pin = raise->pin;
  span.raised = raise->at;
  pic_.latch(process, irq.pin, span);
}

void IrqTracker::on_inject(const KvmIrq& irq, const Event& event, ThreadId process) {
  if (!irq.level) return;
  if (irq.vcpu != kNoVcpu) {
    inject({process, irq.vcpu, irq.vector}, event.at);
    return;
  }
  Entering* thread = entering_.get(event.thread, kMostThreads);
  if (thread == nullptr || thread->injected.size() >= kMostPerEntry) return;
  if (thread->vcpu == kNoVcpu) {
    early_.add(*thread);
    if (thread->early.size() < kMostPerEntry) thread->early.emplace_back(irq, event.at);
    return;
  }
  const Key key{process, thread->vcpu, irq.vector};
  if (inject(key, event.at)) {
    thread->injected.push_back(key);
  } else if (pic_.inject(process, irq.vector, event)) {
    thread->of_pic = true;
  }
}

const IrqSpan* IrqTracker::on_irq(const Event& event, const KvmIrq& irq, ThreadId process) {
  ++seen_[static_cast<std::size_t>(irq.step)];
  switch (irq.step) {
    case IrqStep::kLine:
    case IrqStep::kMsi: {
      Raise* raise = raises_.get(event.thread, kMostThreads);
      if (raise == nullptr) return nullptr;
      *raise = {irq.step == IrqStep::kMsi ? IrqSpan::Origin::kMsi : IrqSpan::Origin::kLine, irq.pin,
                event.at, irq.level};
      return nullptr;
    }
    case IrqStep::kRoute:
      if (Raise* raise = raises_.find(event.thread)) raise->routed = true;
      return nullptr;
    case IrqStep::kAccept:
      pend({process, irq.vcpu, irq.vector}, event);
      return nullptr;
    case IrqStep::kPending: {
      const Key key{process, irq.vcpu, irq.pin};
      if (irq.level) {
        pend(key, event);
        if (const auto found = pending_.find(key); found != pending_.end()) {
          found->second.pin = irq.pin;
          found->second.origin = IrqSpan::Origin::kLine;
        }
      } else {
        pending_.erase(key);
      }
      return nullptr;
    }
    case IrqStep::kPic:
      latch(irq, event, process);
      return nullptr;
    case IrqStep::kPicEnd:
      return pic_.end(process, irq.pin, event.at);
    case IrqStep::kInject:
      on_inject(irq, event, process);
      return nullptr;
    case IrqStep::kEoi: {
      const auto found = active_.find({process, irq.vcpu, irq.vector});
      if (found == active_.end()) return nullptr;
      done_ = active_.extract(found).mapped();
      done_.ended = event.at;
      return &done_;
    }
    default:
      return nullptr;
  }
}

const IrqSpan* IrqTracker::on_entry(const Event& event, const KvmEntry& entry, ThreadId process) {
  Entering* thread = entering_.get(event.thread, kMostThreads);
  if (thread == nullptr) return nullptr;
  if (entry.vcpu != kNoVcpu) thread->vcpu = entry.vcpu;
  if (entry.vcpu != kNoVcpu && !thread->early.empty()) {
    for (const auto& [irq, at] : std::exchange(thread->early, {})) {
      Event injection = event;
      injection.at = at;
      on_inject(irq, injection, process);
    }
  }
  for (const Key& key : thread->injected) {
    const auto found = active_.find(key);
    if (found != active_.end() && !found->second.entered) found->second.entered = event.at;
  }
  thread->injected.clear();
  if (std::exchange(thread->of_pic, false)) pic_.enter(event.thread, event.at);
  if (entry.vcpu != kNoVcpu) return nullptr;
  // arm64: the vCPU's lowest pending interrupt is taken with the entry.
  const auto found = pending_.lower_bound({process, thread->vcpu, 0});
  if (found == pending_.end() || std::get<0>(found->first) != process ||
      std::get<1>(found->first) != thread->vcpu) {
    return nullptr;
  }
  done_ = pending_.extract(found).mapped();
  done_.entered = event.at;
  return &done_;
}

const IrqSpan* IrqTracker::on(const Event& event, ThreadId process) {
  if (const auto* irq = std::get_if<KvmIrq>(&event.payload)) return on_irq(event, *irq, process);
  if (const auto* entry = std::get_if<KvmEntry>(&event.payload)) {
    return on_entry(event, *entry, process);
  }
  if (const auto* exit = std::get_if<KvmExit>(&event.payload); exit != nullptr) {
    if (Raise* raise = raises_.find(event.thread)) raise->open = false;
    Entering* thread = entering_.get(event.thread, kMostThreads);
    if (thread != nullptr && exit->vcpu != kNoVcpu) thread->vcpu = exit->vcpu;
  }
  if (const auto* reload = std::get_if<KvmStateLoad>(&event.payload); reload != nullptr) {
    if (Raise* raise = raises_.find(event.thread)) raise->open = false;
    Entering* thread = entering_.find(event.thread);
    if (thread != nullptr && reload->vcpu != kNoVcpu) thread->vcpu = reload->vcpu;
  }
  if (std::holds_alternative<Lost>(event.payload)) {  // what was lost may have ended any of them
    pending_.clear();
    active_.clear();
    early_.end([](Entering& thread) { thread.early.clear(); });
    pic_.on_hole();
  }
  return nullptr;
}

const IrqSpan* IrqTracker::finish() {
  if (active_.empty()) return pic_.finish();
  done_ = active_.extract(active_.begin()).mapped();
  return &done_;
}

}  // namespace trapline
