#include "merge/analyze/irq_tracker.h"

namespace trapline {

void PicLines::latch(ThreadId process, std::uint32_t line, const IrqSpan& raised) {
  Pics* pics = line < kLines ? pics_.get(process, kMostProcesses) : nullptr;
  if (pics == nullptr) return;
  Line& of_pin = pics->lines[line];
  if (of_pin.latched) {
    ++coalesced_;
    return;
  }
  of_pin.latched = raised;
}

PicLines::Line* PicLines::find(Pics& pics, std::uint32_t vector) {
  const std::uint32_t pin = vector % kPins, base = vector - pin;
  std::optional<std::uint32_t> chip;
  for (std::uint32_t i = 0; i < 2; ++i) {
    if (!pics.lines[i * kPins + pin].latched) continue;
    if (pics.base[i] == base) {
      chip = i;
      break;
    }
    if (pics.base[1 - i] == base) continue;  // `base` is the other chip's
    if (chip) {
      ++ambiguous_;
      return nullptr;
    }
    chip = i;
  }
  if (!chip) return nullptr;
  pics.base[*chip] = base;
  return &pics.lines[*chip * kPins + pin];
}

bool PicLines::inject(ThreadId process, std::uint32_t vector, const Event& event) {
  Pics* pics = pics_.find(process);
  Line* line = pics == nullptr ? nullptr : find(*pics, vector);
  if (line == nullptr) return false;
  line->active = line->latched;
  line->latched.reset();
  line->active->vector = vector;
  line->active->injected = event.at;
  line->injected_by = event.thread;
  to_enter_[event.thread].push_back(line);
  return true;
}

void PicLines::enter(ThreadId thread, Timestamp at) {
  const auto injected = to_enter_.find(thread);
  if (injected == to_enter_.end()) return;
  for (Line* line : injected->second) {
    if (line->active && !line->active->entered && line->injected_by == thread)
      line->active->entered = at;
  }
  to_enter_.erase(injected);
}

const IrqSpan* PicLines::end(ThreadId process, std::uint32_t line, Timestamp at) {
  Pics* pics = line < kLines ? pics_.find(process) : nullptr;
  if (pics == nullptr || !pics->lines[line].active) return nullptr;
  done_ = *std::exchange(pics->lines[line].active, std::nullopt);
  done_.ended = at;
  return &done_;
}

const IrqSpan* PicLines::finish() {
  for (auto& entry : pics_.entries()) {
    for (Line& line : entry.state.lines) {
      if (!line.active) continue;
      done_ = *std::exchange(line.active, std::nullopt);
      return &done_;
    }
  }
  return nullptr;
}

void PicLines::on_hole() {
  pics_.lose([](Pics& pics) { pics.lines = {}; });
  to_enter_.clear();
}

void IrqTracker::on_notify(const Event& event, ThreadId process, std::uint64_t vq,
                           std::vector<RequestSpan> requests) {
  Thread* thread = threads_.get(event.thread, kMost);
  if (thread == nullptr) return;
  thread->state = Thread::State::kNotified;
  thread->queue = {process, vq};
  thread->requests = std::move(requests);
}

// Notes that the thread runs a vCPU, so that its last raise has ended.
void IrqTracker::runs_vcpu(ThreadId id, std::int32_t vcpu) {
  Thread* thread = threads_.get(id, kMost);
  if (thread == nullptr) return;
  thread->raise.open = false;
  if (vcpu != kNoVcpu) thread->vcpu = vcpu;
}

void IrqTracker::raise(const KvmIrq& irq, const Event& event) {
  const bool is_msi = irq.step == IrqStep::kMsi;
  Thread* thread = threads_.get(event.thread, kMost);
  if (thread == nullptr) return;
  thread->raise = {};
  thread->raise.open = irq.level;
  thread->raise.span.origin = is_msi ? IrqSpan::Origin::kMsi : IrqSpan::Origin::kLine;
  thread->raise.span.pin = irq.pin;
  thread->raise.span.raised = event.at;
  if (thread->state == Thread::State::kIdle) return;
  // A second raise is not caused by this notify alone.
  if (thread->state != Thread::State::kNotified || (!is_msi && !irq.level))
    return void(take(*thread));
  thread->state = Thread::State::kRaised;
  thread->route = {irq.step, is_msi ? irq.vector : irq.pin};
  const auto known = routes_.find(thread->queue);
  if (known != routes_.end() && known->second != thread->route) {
    ++rerouted_;
    take(*thread);
  }
  if (known != routes_.end() || routes_.size() < kMost) routes_[thread->queue] = thread->route;
}

// Notes which vCPU accepts the interrupt that tells the guest of the thread's requests.
void IrqTracker::accept(const KvmIrq& irq, const Event& event, ThreadId process) {
  Thread* thread = threads_.find(event.thread);
  if (thread == nullptr) return;
  const bool is_vector = irq.step == IrqStep::kAccept, by_msi = thread->route.step == IrqStep::kMsi;
  const bool fits =
      thread->state == Thread::State::kRaised &&
      (is_vector ? !by_msi || thread->route.number == irq.vector : !by_msi && irq.level);
  const std::vector<RequestSpan> requests = take(*thread);
  if (!fits || requests.empty()) return;
  if (told_count_ + requests.size() > kMost) {  // interrupts are raised and none is injected
    ++rerouted_;
    return;
  }
  told_count_ += requests.size();
  auto& waiting = told_[{process, irq.vcpu, is_vector ? irq.vector : irq.pin | kSpi}];
  waiting.insert(waiting.end(), requests.begin(), requests.end());
}

std::uint64_t IrqTracker::deliver(const Key& key, Timestamp at, bool posted) {
  const auto found = told_.find(key);
  // An injection that is reported late may be older than the pending requests.
  if (found == told_.end() || at < found->second.back().end) return 0;
  for (const RequestSpan& request : found->second) delivered_.push_back({request, at, posted});
  const std::uint64_t last = found->second.back().number;
  told_count_ -= found->second.size();
  told_.erase(found);
  return last;
}

void IrqTracker::pend(const Key& key, const Event& event) {
  // A raise is reported once, just before the vCPU accepts it.
  Raise raised;
  if (Thread* thread = threads_.find(event.thread)) raised = std::exchange(thread->raise, Raise{});
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
  span.raised = event.at;
  if (raised.open && !raised.routed) span = raised.span;
  span.vector = std::get<2>(key);
}

bool IrqTracker::inject(const Key& key, Timestamp at, std::uint64_t request) {
  const auto found = pending_.find(key);
  // An injection that is reported late may be older than the pending interrupt.
  if (found == pending_.end() || at < found->second.raised) return false;
  found->second.injected = at;
  found->second.request = request;
  if (active_.size() < kMost) active_[key] = found->second;
  pending_.erase(found);
  return true;
}

// Latches a PIC line. The raise stays, because the IOAPIC has the same line and its interrupt may
// be the one that is accepted.
void IrqTracker::latch(const KvmIrq& irq, const Event& event, ThreadId process) {
  const Thread* thread = threads_.find(event.thread);
  if (!irq.level || thread == nullptr || !thread->raise.open) return;
  pic_.latch(process, irq.pin, thread->raise.span);
}

void IrqTracker::on_inject(const KvmIrq& irq, const Event& event, ThreadId process) {
  if (!irq.level) return;
  if (irq.vcpu != kNoVcpu) {
    const Key key{process, irq.vcpu, irq.vector};
    inject(key, event.at, deliver(key, event.at, true));
    return;
  }
  Thread* thread = threads_.get(event.thread, kMost);
  if (thread == nullptr) return;
  if (thread->vcpu == kNoVcpu) {
    if (thread->early.size() < kMostPerEntry) thread->early.emplace_back(irq, event.at);
    return;
  }
  const Key key{process, thread->vcpu, irq.vector};
  const std::uint64_t request = deliver(key, event.at);
  if (thread->injected.size() >= kMostPerEntry) return;
  if (inject(key, event.at, request)) {
    thread->injected.push_back(key);
  } else if (pic_.inject(process, irq.vector, event)) {
    thread->of_pic = true;
  }
}

const IrqSpan* IrqTracker::on_irq(const Event& event, const KvmIrq& irq, ThreadId process) {
  ++seen_[static_cast<std::size_t>(irq.step)];
  switch (irq.step) {
    case IrqStep::kLine:
    case IrqStep::kMsi:
      raise(irq, event);
      return nullptr;
    case IrqStep::kRoute:  // without an accept before it, the interrupt was pending already
      if (Thread* thread = threads_.find(event.thread)) {
        take(*thread);
        thread->raise.routed = true;
      }
      return nullptr;
    case IrqStep::kAccept:
      accept(irq, event, process);
      pend({process, irq.vcpu, irq.vector}, event);
      return nullptr;
    case IrqStep::kPending: {
      const Key key{process, irq.vcpu, irq.pin};
      accept(irq, event, process);
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
  }
  return nullptr;
}

const IrqSpan* IrqTracker::on_entry(const Event& event, const KvmEntry& entry, ThreadId process) {
  Thread* thread = threads_.get(event.thread, kMost);
  if (thread == nullptr) return nullptr;
  take(*thread);
  if (entry.vcpu != kNoVcpu) thread->vcpu = entry.vcpu;
  if (entry.vcpu != kNoVcpu && !thread->early.empty()) {
    for (const auto& [irq, at] : std::exchange(thread->early, {})) {
      Event injection = event;
      injection.at = at;
      on_inject(irq, injection, process);
    }
  }
  const auto next = [&] { return told_.lower_bound({process, thread->vcpu, kSpi}); };
  for (auto told = next(); told != told_.end() && std::get<0>(told->first) == process &&
                           std::get<1>(told->first) == thread->vcpu;
       told = next())
    deliver(told->first, event.at);
  for (const Key& key : thread->injected) {
    const auto found = active_.find(key);
    if (found != active_.end() && !found->second.entered) found->second.entered = event.at;
  }
  thread->injected.clear();
  if (std::exchange(thread->of_pic, false)) pic_.enter(event.thread, event.at);
  if (entry.vcpu != kNoVcpu) return nullptr;
  // arm64: the entry takes the vCPU's lowest pending interrupt.
  const auto found = pending_.lower_bound({process, thread->vcpu, 0});
  if (found == pending_.end() || std::get<0>(found->first) != process ||
      std::get<1>(found->first) != thread->vcpu) {
    return nullptr;
  }
  done_ = pending_.extract(found).mapped();
  done_.entered = event.at;
  return &done_;
}

// Forgets all interrupts: lost events may have ended any.
void IrqTracker::on_hole() {
  pending_.clear();
  active_.clear();
  told_.clear();
  told_count_ = 0;
  threads_.lose([](Thread& thread) {
    thread.early.clear();
    take(thread);
  });
  pic_.on_hole();
}

const IrqSpan* IrqTracker::finish() {
  if (active_.empty()) return pic_.finish();
  done_ = active_.extract(active_.begin()).mapped();
  return &done_;
}

}  // namespace trapline
