#include "merge/source/kernel_events/capability_looker.h"

#include <algorithm>

namespace trapline::kernel_events {
namespace {

bool Capabilities::*capability_of(std::string_view name) {
  if (name == "kvm:kvm_exit") return &Capabilities::kvm_exit;
  if (name == "kvm:kvm_userspace_exit") return &Capabilities::kvm_userspace_exit;
  if (name == "kvm:kvm_fpu" || name == "kvm:kvm_get_timer_map" ||
      name == "kvm:kvm_timer_restore_state") {
    return &Capabilities::reload;
  }
  if (name.starts_with("kvm:")) return &Capabilities::any_kvm;
  if (name == "sched:sched_switch") return &Capabilities::sched_switch;
  if (name == "sched:sched_waking" || name == "sched:sched_wakeup") return &Capabilities::wakeups;
  if (name == "ftrace:print") return &Capabilities::markers;
  if (name == "syscalls:sys_enter_ioctl") return &Capabilities::run_ioctl;
  return nullptr;
}

}  // namespace

CapabilityLooker::CapabilityLooker(const Formats& formats)
    : formats_(formats), schemas_(formats.schemas()) {
  for (std::size_t type = 0; type < schemas_.size(); ++type) {
    const auto name = formats.name(static_cast<std::uint16_t>(type));
    by_type_.push_back(capability_of(name));
    if (by_type_.back() == nullptr) continue;
    possible_.push_back(by_type_.back());
    if (name.starts_with("kvm:")) possible_.push_back(&Capabilities::any_kvm);
  }
}

bool CapabilityLooker::is_complete() const {
  return std::ranges::all_of(possible_,
                             [this](bool Capabilities::*capability) { return found_.*capability; });
}

void CapabilityLooker::look(const RecordedEvent& event) {
  if (event.size < 8) return;
  const auto type = formats_.type_of(event.data);
  if (type >= by_type_.size() || by_type_[type] == nullptr) return;
  const Schema& schema = schemas_[type];
  if (event.size < schema.min_size) return;
  found_.any_kvm |=
      by_type_[type] != &Capabilities::sched_switch && by_type_[type] != &Capabilities::wakeups &&
      by_type_[type] != &Capabilities::markers && by_type_[type] != &Capabilities::run_ioctl;
  if (by_type_[type] == &Capabilities::run_ioctl || by_type_[type] == &Capabilities::reload) {
    Payload payload;
    schema.decode(schema, event, payload);
    const auto* ioctl = std::get_if<IoctlEnter>(&payload);
    if (ioctl != nullptr && ioctl->command != kKvmRun) return;
    if (std::holds_alternative<Other>(payload)) return;
  }
  found_.*by_type_[type] = true;
}

Capabilities capabilities_by_format(const Formats& formats) {
  const auto has = [&](std::string_view name) { return formats.type(name) >= 0; };
  const bool exits = has("kvm:kvm_exit"), userspace = has("kvm:kvm_userspace_exit");
  return {.kvm_exit = exits,
          .kvm_userspace_exit = userspace,
          .any_kvm = exits || userspace,
          .run_ioctl = has("syscalls:sys_enter_ioctl"),
          .reload = has("kvm:kvm_fpu") || has("kvm:kvm_get_timer_map"),
          .sched_switch = has("sched:sched_switch"),
          .wakeups = has("sched:sched_waking") || has("sched:sched_wakeup"),
          .markers = has("ftrace:print")};
}

}  // namespace trapline::kernel_events
