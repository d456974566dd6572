#include "merge/source/kernel_events/capability_looker.h"

#include <algorithm>
#include <utility>

namespace trapline::kernel_events {
namespace {

constexpr std::pair<Decoder, bool Capabilities::*> kProofs[] = {
    {Decoder::kExit, &Capabilities::kvm_exit},
    {Decoder::kUserspaceExit, &Capabilities::kvm_userspace_exit},
    {Decoder::kFpuLoad, &Capabilities::reload},
    {Decoder::kTimerReload, &Capabilities::reload},
    {Decoder::kSwitch, &Capabilities::sched_switch},
    {Decoder::kWakeup, &Capabilities::wakeups},
    {Decoder::kMigration, &Capabilities::moves},
    {Decoder::kMarker, &Capabilities::markers},
    {Decoder::kIoctl, &Capabilities::run_ioctl},
};

}  // namespace

Witness Witness::of(std::string_view name) {
  Witness witness;
  witness.of_kvm = name.starts_with("kvm:");
  const KernelEvent* event = name.empty() ? nullptr : events::find(name);
  for (const auto& [decoder, capability] : kProofs)
    if (event != nullptr && event->decoded.decoder == decoder) witness.capability = capability;
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
  return std::ranges::all_of(by_type_,
                             [this](const Witness& witness) { return witness.is_known(found_); });
}

void CapabilityLooker::look(const RecordedEvent& recorded) {
  if (recorded.size < kCommonFields) return;
  const auto type = formats_.type_of(recorded.data);
  if (type >= by_type_.size()) return;
  const Witness& witness = by_type_[type];
  const Decoder decoder = formats_.schemas()[type].decoder;
  const bool tells_vcpu = decoder == Decoder::kEntry || decoder == Decoder::kTimerReload;
  if (witness.is_known(found_) && !tells_vcpu) return;
  Event event;
  if (!formats_.decode(recorded, event)) return;
  witness.add(event.payload, found_);
  const auto* entry = std::get_if<KvmEntry>(&event.payload);
  const auto* load = std::get_if<KvmStateLoad>(&event.payload);
  if (entry != nullptr && entry->vcpu == kNoVcpu) entered_.insert(event.thread);
  // QEMU's main thread loads the timers of vCPUs too, when it creates the vCPUs. So a load shows
  // the vCPU only of a thread that has entered the guest.
  const bool loads = load != nullptr && entered_.contains(event.thread);
  const std::int32_t vcpu = entry != nullptr ? entry->vcpu : loads ? load->vcpu : kNoVcpu;
  if (vcpu != kNoVcpu) found_.vcpus[event.thread] = vcpu;
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
