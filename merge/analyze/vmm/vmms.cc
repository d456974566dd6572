#include "merge/analyze/vmm/vmms.h"

#include <array>

#include "backend_ftrace/base/text.h"

namespace trapline {

// The knowledge of each VMM, defined in a file of this folder; vmms() lists it in this order.
const VmmKnowledge& qemu_vmm();
const VmmKnowledge& device_events_vmm();
const VmmKnowledge& firecracker_vmm();
const VmmKnowledge& cloud_hypervisor_vmm();
const VmmKnowledge& crosvm_vmm();
const VmmKnowledge& kvmtool_vmm();

namespace {

class AnyVmm final : public VmmKnowledge {
 public:
  std::string_view name() const override { return "any VMM"; }

  std::int32_t vcpu_of_thread(std::string_view comm) const override {
    for (const VmmKnowledge* vmm : vmms())
      if (const std::int32_t vcpu = vmm->vcpu_of_thread(comm); vcpu != kNoVcpu) return vcpu;
    return kNoVcpu;
  }
  bool is_process(std::string_view comm) const override {
    for (const VmmKnowledge* vmm : vmms())
      if (vmm->is_process(comm)) return true;
    return false;
  }
  const VmmEventMeaning* event(std::string_view event_name) const override {
    for (const VmmKnowledge* vmm : vmms())
      if (const VmmEventMeaning* meaning = vmm->event(event_name)) return meaning;
    return nullptr;
  }
  std::span<const RequestSpec> requests() const override { return known_requests(); }
  RequestStep request_step(std::string_view event_name) const override {
    for (const VmmKnowledge* vmm : vmms()) {
      const RequestStep step = vmm->request_step(event_name);
      if (step != RequestStep::kOther) return step;
    }
    return RequestStep::kOther;
  }
  // Only QEMU has such events so far; with a second VMM, the step would have to include the fields.
  RequestFields request_fields() const override { return qemu_vmm().request_fields(); }
  const RequestTransfer* transfer(std::string_view name) const override {
    return qemu_vmm().transfer(name);
  }
};

}  // namespace

std::span<const VmmKnowledge* const> vmms() {
  static const std::array kVmms{&qemu_vmm(),        &device_events_vmm(),
                                &firecracker_vmm(), &cloud_hypervisor_vmm(),
                                &crosvm_vmm(),      &kvmtool_vmm()};
  return kVmms;
}

const VmmKnowledge& any_vmm() {
  static const AnyVmm kAny;
  return kAny;
}

std::int32_t vcpu_of_name(std::string_view comm) { return any_vmm().vcpu_of_thread(comm); }

const std::vector<RequestSpec>& known_requests() {
  static const std::vector<RequestSpec> kKnown = [] {
    std::vector<RequestSpec> all;
    for (const VmmKnowledge* vmm : vmms())
      all.insert(all.end(), vmm->requests().begin(), vmm->requests().end());
    return all;
  }();
  return kKnown;
}

std::int32_t number_after_prefix(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return kNoVcpu;
  text.remove_prefix(prefix.size());
  std::int32_t number = kNoVcpu;
  const bool whole = !text.starts_with('-') && take_number(text, number) && text.empty();
  return whole ? number : kNoVcpu;
}

// Any VMM that reports accesses to its devices through libtrapline_ftrace, with two events of this
// convention (docs/vmm.md; docs/examples/vmm is one):
//
//   vmm_device_read(uint64_t addr, uint64_t value, unsigned size, const char *name)
//   vmm_device_write(...)   "addr 0x%"PRIx64" value 0x%"PRIx64" size %u name '%s'"

namespace {

constexpr VmmEventField kDeviceAddress{"addr", " addr 0x"};
constexpr VmmEventField kDeviceName{"name", " name '"};
constexpr VmmEventMeaning kDeviceRead{VmmEventKind::kRegionRead, kDeviceAddress, kDeviceName, {}};
constexpr VmmEventMeaning kDeviceWrite{VmmEventKind::kRegionWrite, kDeviceAddress, kDeviceName, {}};

class DeviceEvents final : public VmmKnowledge {
 public:
  std::string_view name() const override { return "vmm_device events"; }
  std::int32_t vcpu_of_thread(std::string_view comm) const override {
    return number_after_prefix(comm, "vmm_vcpu ");
  }
  bool is_process(std::string_view) const override { return false; }
  const VmmEventMeaning* event(std::string_view event_name) const override {
    if (event_name == "vmm_device_read") return &kDeviceRead;
    return event_name == "vmm_device_write" ? &kDeviceWrite : nullptr;
  }
};

}  // namespace

const VmmKnowledge& device_events_vmm() {
  static const DeviceEvents kVmm;
  return kVmm;
}

// VMMs without events: the names of their vCPU threads and of their processes.

namespace {

class NamedThreads final : public VmmKnowledge {
 public:
  // `process` in the kernel's form: at most 15 characters.
  constexpr NamedThreads(std::string_view name, std::string_view thread, std::string_view process)
      : name_(name), thread_(thread), process_(process) {}

  std::string_view name() const override { return name_; }
  std::int32_t vcpu_of_thread(std::string_view comm) const override {
    return number_after_prefix(comm, thread_);
  }
  bool is_process(std::string_view comm) const override { return comm == process_; }

 private:
  std::string_view name_, thread_, process_;
};

}  // namespace

const VmmKnowledge& firecracker_vmm() {
  static const NamedThreads kVmm{"Firecracker", "fc_vcpu ", "firecracker"};
  return kVmm;
}
const VmmKnowledge& cloud_hypervisor_vmm() {
  static const NamedThreads kVmm{"Cloud Hypervisor", "vcpu", "cloud-hyperviso"};
  return kVmm;
}
const VmmKnowledge& crosvm_vmm() {
  static const NamedThreads kVmm{"crosvm", "crosvm_vcpu", "crosvm"};
  return kVmm;
}
const VmmKnowledge& kvmtool_vmm() {
  static const NamedThreads kVmm{"kvmtool", "kvm-vcpu-", "lkvm"};
  return kVmm;
}

}  // namespace trapline
