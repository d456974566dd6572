#include "merge/source/kernel_events/capability_looker.h"

#include <algorithm>

namespace trapline::kernel_events {
namespace {

bool Capabilities::*capability_of(Decoder decoder) {
  switch (decoder) {
    case Decoder::kExit:
      return &Capabilities::kvm_exit;
    case Decoder::kUserspaceExit:
      return &Capabilities::kvm_userspace_exit;
    case Decoder::kFpuLoad:
    case Decoder::kTimerReload:
      return &Capabilities::reload;
    case Decoder::kSwitch:
      return &Capabilities::sched_switch;
    case Decoder::kWakeup:
      return &Capabilities::wakeups;
    case Decoder::kMarker:
      return &Capabilities::markers;
    case Decoder::kIoctl:
      return &Capabilities::run_ioctl;
    default:
      return nullptr;
  }
}

}  // namespace

Witness Witness::of(std::string_view name) {
  Witness witness;
  witness.of_kvm = name.starts_with("kvm:");
  if (const KernelEvent* event = name.empty() ? nullptr : events::find(name))
    witness.capability = capability_of(event->decoded.decoder);
  return witness;
}

void Witness::add(const Payload& payload, Capabilities& found) const {
  found.any_kvm |= of_kvm;
  if (capability == nullptr || std::holds_alternative<Other>(payload)) return;
  const auto* ioctl = std::get_if<IoctlEnter>(&payload);
  if (ioctl == nullptr || ioctl->command == kKvmRun) found.*capability = true;
}

CapabilityLooker::CapabilityLooker(const Formats& formats) : formats_(formats) {
  for (std::size_t type = 0; type < formats.schemas().size(); ++type)
    by_type_.push_back(Witness::of(formats.name(static_cast<std::uint16_t>(type))));
}

bool CapabilityLooker::is_complete() const {
  return std::ranges::all_of(by_type_, [this](const Witness& witness) {
    return (!witness.of_kvm || found_.any_kvm) &&
           (witness.capability == nullptr || found_.*witness.capability);
  });
}

void CapabilityLooker::look(const RecordedEvent& recorded) {
  if (recorded.size < kCommonFields) return;
  const auto type = formats_.type_of(recorded.data);
  if (type >= by_type_.size()) return;
  const Witness& witness = by_type_[type];
  const bool is_known = witness.capability == nullptr ? found_.any_kvm || !witness.of_kvm
                                                      : found_.*witness.capability;
  if (is_known) return;
  Event event;
  if (formats_.decode(recorded, event)) witness.add(event.payload, found_);
}

Capabilities capabilities_by_format(const Formats& formats) {
  Capabilities found;
  for (std::size_t type = 0; type < formats.schemas().size(); ++type) {
    const Witness witness = Witness::of(formats.name(static_cast<std::uint16_t>(type)));
    if (witness.capability != nullptr) found.*witness.capability = true;
  }
  found.any_kvm = found.kvm_exit || found.kvm_userspace_exit;
  return found;
}

}  // namespace trapline::kernel_events
