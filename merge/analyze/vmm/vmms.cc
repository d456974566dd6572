#include "merge/analyze/vmm/vmms.h"

#include <array>

#include "backend_ftrace/base/text.h"

namespace trapline {

Vmm qemu_vmm();

namespace {

// Any VMM that reports accesses to its devices through libtrapline_ftrace, with two events of this
// convention (docs/vmm.md; docs/examples/vmm is one):
//
//   vmm_device_read(uint64_t addr, uint64_t value, unsigned size, const char *name)
//   vmm_device_write(...)   "addr 0x%"PRIx64" value 0x%"PRIx64" size %u name '%s'"
constexpr VmmEventField kDeviceAddress{"addr", " addr 0x"};
constexpr VmmEventField kDeviceName{"name", " name '"};
constexpr VmmEventMeaning kDeviceRead{VmmEventKind::kRegionRead, kDeviceAddress, kDeviceName, {}};
constexpr VmmEventMeaning kDeviceWrite{VmmEventKind::kRegionWrite, kDeviceAddress, kDeviceName, {}};

const VmmEventMeaning* device_event(std::string_view name) {
  if (name == "vmm_device_read") return &kDeviceRead;
  return name == "vmm_device_write" ? &kDeviceWrite : nullptr;
}

using Name = std::string_view;

}  // namespace

std::span<const Vmm> vmms() {
  // A process's name in the kernel's form: at most 15 characters.
  static const std::array kVmms{
      qemu_vmm(),
      Vmm{"vmm_device events", [](Name comm) { return number_after_prefix(comm, "vmm_vcpu "); },
          [](Name) { return false; }, device_event},
      Vmm{"Firecracker", [](Name comm) { return number_after_prefix(comm, "fc_vcpu "); },
          [](Name comm) { return comm == "firecracker"; }},
      Vmm{"Cloud Hypervisor", [](Name comm) { return number_after_prefix(comm, "vcpu"); },
          [](Name comm) { return comm == "cloud-hyperviso"; }},
      Vmm{"crosvm", [](Name comm) { return number_after_prefix(comm, "crosvm_vcpu"); },
          [](Name comm) { return comm == "crosvm"; }},
      Vmm{"kvmtool", [](Name comm) { return number_after_prefix(comm, "kvm-vcpu-"); },
          [](Name comm) { return comm == "lkvm"; }}};
  return kVmms;
}

std::int32_t vcpu_of_name(std::string_view comm) {
  for (const Vmm& vmm : vmms())
    if (const std::int32_t vcpu = vmm.vcpu_of_thread(comm); vcpu != kNoVcpu) return vcpu;
  return kNoVcpu;
}

bool is_vmm_process(std::string_view comm) {
  for (const Vmm& vmm : vmms())
    if (vmm.is_process(comm)) return true;
  return false;
}

const VmmEventMeaning* vmm_event_meaning(std::string_view name) {
  for (const Vmm& vmm : vmms())
    if (const VmmEventMeaning* meaning = vmm.event(name)) return meaning;
  return nullptr;
}

std::int32_t number_after_prefix(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return kNoVcpu;
  text.remove_prefix(prefix.size());
  std::int32_t number = kNoVcpu;
  const bool whole = !text.starts_with('-') && take_number(text, number) && text.empty();
  return whole ? number : kNoVcpu;
}

}  // namespace trapline
