// QEMU: the meaning of its trace events, as versions 2.x to 11 print them, and its names of
// threads.
#include <vector>

#include "merge/analyze/vmm/vmms.h"

namespace trapline {
namespace {

constexpr VmmEventField kAddress{"addr", " addr 0x"};
constexpr VmmEventField kRegionName{"name", " name '"};
constexpr VmmEventMeaning kRegionRead{VmmEventKind::kRegionRead, kAddress, kRegionName, {}};
constexpr VmmEventMeaning kRegionWrite{VmmEventKind::kRegionWrite, kAddress, kRegionName, {}};
constexpr VmmEventField kCpuIndex{"cpu_index", "cpu_index "};
constexpr VmmEventMeaning kRunExit{
    VmmEventKind::kRunExit, {}, {}, kCpuIndex, {"reason", "reason "}};
constexpr VmmEventMeaning kVcpuIoctl{
    VmmEventKind::kVcpuIoctl, {}, {}, kCpuIndex, {"type", "type 0x"}};
constexpr VmmEventMeaning kVmState{VmmEventKind::kVmState, {}, {}, {}, {"running", "running "}};
constexpr VmmEventMeaning kAccelerator{VmmEventKind::kAccelerator, {}, {}, {}};

// With -name …,debug-threads=on, which libvirt uses: "CPU 3/KVM", "CPU 3/TCG".
std::int32_t vcpu_of_thread(std::string_view comm) {
  if (!comm.ends_with("/KVM") && !comm.ends_with("/TCG")) return kNoVcpu;
  return number_after_prefix(comm.substr(0, comm.size() - 4), "CPU ");
}

const VmmEventMeaning* event_meaning(std::string_view name) {
  if (name.starts_with("memory_region_")) {
    if (name.ends_with("_read")) return &kRegionRead;
    if (name.ends_with("_write")) return &kRegionWrite;
  }
  if (name == "kvm_run_exit") return &kRunExit;
  if (name == "kvm_vcpu_ioctl") return &kVcpuIoctl;
  if (name == "vm_state_notify") return &kVmState;
  return name.starts_with("kvm_") ? &kAccelerator : nullptr;
}

}  // namespace

Vmm qemu_vmm() {
  return {"QEMU", vcpu_of_thread, [](std::string_view comm) { return comm.starts_with("qemu"); },
          event_meaning};
}

// Returns virtio-blk's requests, and a queue's work from the guest's notify to QEMU's notify of
// the guest.
const std::vector<RequestSpec>& known_requests() {
  static const std::vector<RequestSpec> kRequests{
      {"virtio_blk_handle_read", "req", "virtio_blk_req_complete", "req"},
      {"virtio_blk_handle_write", "req", "virtio_blk_req_complete", "req"},
      {"virtio_queue_notify", "vq", "virtio_notify", "vq"},
      {"virtio_queue_notify", "vq", "virtio_notify_irqfd", "vq"}};
  return kRequests;
}

RequestStep request_step(std::string_view name) {
  if (name == "virtio_queue_notify") return RequestStep::kQueueNotify;
  if (name == "virtio_notify") return RequestStep::kNotify;
  if (name == "virtio_notify_irqfd") return RequestStep::kDeferrableNotify;
  if (name == "virtio_notify_irqfd_deferred_fn") return RequestStep::kDeferredNotify;
  // virtqueue_fill and _flush return the request; an MSI is a write to a memory region.
  for (const std::string_view part : {"virtqueue_", "memory_region_", "kvm_"})
    if (name.starts_with(part)) return RequestStep::kPartOfNotify;
  return name.starts_with("virtio_") ? RequestStep::kDevice : RequestStep::kOther;
}

const RequestTransfer* request_transfer(std::string_view name) {
  static constexpr RequestTransfer kRead{false, "req", "sector", "nsectors"};
  static constexpr RequestTransfer kWrite{true, "req", "sector", "nsectors"};
  if (name == "virtio_blk_handle_read") return &kRead;
  return name == "virtio_blk_handle_write" ? &kWrite : nullptr;
}

}  // namespace trapline
