#include "merge/clock/shift_bound.h"

#include <algorithm>

namespace trapline {

void ShiftBound::ran(const Vcpu& vcpu, std::optional<Timestamp> until) {
  if (vcpu.events.empty()) return;
  ++found_.runs;
  const auto distance = [](Timestamp from, Timestamp to) {
    return static_cast<std::int64_t>(elapsed(from, to));
  };
  found_.least = std::max(found_.least, -distance(vcpu.since, vcpu.events.front()));
  if (until) found_.most = std::min(found_.most, distance(vcpu.events.back(), *until));
}

void ShiftBound::was_out(const Vcpu& vcpu, Timestamp until) {
  for (const Timestamp at : vcpu.events) {
    ++found_.outside;
    const std::uint64_t off = std::min(elapsed(vcpu.since, at), elapsed(at, until));
    if (off < found_.off_ns) continue;
    found_.off_ns = off;
    found_.farthest = at;
    found_.exit = vcpu.since;
    found_.entry = until;
  }
}

void ShiftBound::on_host(const Event& event) {
  if (std::holds_alternative<Lost>(event.payload)) {
    for (auto& [thread, vcpu] : threads_) vcpu = {};
    return;
  }
  const bool entry = std::holds_alternative<KvmEntry>(event.payload);
  if (!entry && !std::holds_alternative<KvmExit>(event.payload)) return;
  Vcpu& vcpu = threads_[event.thread];
  if (entry) {
    if (vcpu.where == Vcpu::Where::kHost) was_out(vcpu, event.at);
    vcpu = {Vcpu::Where::kGuest, event.at, {}};
    return;
  }
  // An exit that KVM handled on its fast path has no kvm_entry, so the guest may have run all the
  // time.
  if (vcpu.where != Vcpu::Where::kUnknown) ran(vcpu, event.at);
  vcpu = {Vcpu::Where::kHost, event.at, {}};
}

void ShiftBound::on_guest(const Event& event) {
  if (std::holds_alternative<Lost>(event.payload)) return;
  const auto cpu = vcpus_.find(static_cast<std::int32_t>(event.cpu));
  if (cpu == vcpus_.end()) return;
  const auto thread = threads_.find(cpu->second);
  if (thread == threads_.end() || thread->second.where == Vcpu::Where::kUnknown) return;
  Vcpu& vcpu = thread->second;
  if (vcpu.where == Vcpu::Where::kGuest) {
    ++found_.events;
    if (vcpu.events.size() == 2) vcpu.events.pop_back();
  } else if (vcpu.events.size() == kMostOutside) {
    return;
  }
  vcpu.events.push_back(event.at);
}

std::optional<ShiftBound::Found> ShiftBound::found() const {
  ShiftBound ended = *this;
  for (const auto& [thread, vcpu] : threads_)
    if (vcpu.where == Vcpu::Where::kGuest) ended.ran(vcpu, std::nullopt);
  if (ended.found_.runs == 0 && ended.found_.outside == 0) return std::nullopt;
  return ended.found_;
}

}  // namespace trapline
