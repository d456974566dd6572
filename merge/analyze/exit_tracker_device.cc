// Who served an exit: the device, and its event.
#include <utility>

#include "merge/analyze/exit_tracker.h"

namespace trapline {

// RISC-V has no kvm_mmio: a page fault that user space has to answer is an access to a device.
void ExitTracker::name_mmio(ExitSpan& span) {
  if (span.userspace_reason != kUserspaceMmio || span.detail.kind != DetailKind::kPageFault) return;
  const bool write = span.reason.reason == kRiscvStoreFault;
  span.detail = {span.detail.value, KvmDetail::kNoData, DetailKind::kMmio,
                 write ? trapline::Access::kWrite : trapline::Access::kRead, false};
}

// The region whose address is the exit's names the device, else the last one accessed: writes that
// KVM coalesced are replayed inside a later exit, before its own access.
void ExitTracker::name_device(Thread& thread) {
  ExitSpan& span = thread.span;
  if (thread.accesses == 0) {
    span.vmm_event =
        thread.device_event != kNoName ? thread.device_event : thread.accelerator_event;
    return;
  }
  const Access* chosen = &thread.access[thread.accesses - 1u];
  if (span.detail.kind <= DetailKind::kMmio) {
    for (std::size_t i = 0; i < thread.accesses; ++i) {
      const Access& access = thread.access[i];
      if (access.region.has_address && access.region.address == span.detail.value) {
        chosen = &access;
      }
    }
  }
  span.device = chosen->region.region;
  // QEMU traces a read after the device answered, a write before the device sees it.
  const NameId own =
      chosen->region.kind == VmmEvent::Kind::kRegionRead ? chosen->before : chosen->after;
  span.vmm_event = own != kNoName ? own : chosen->region.name;
}

// What the event in vmm_event_ tells of who serves the thread's exit.
void ExitTracker::note_vmm_event(Thread& thread) const {
  switch (vmm_event_.kind) {
    case VmmEvent::Kind::kVmState:
    case VmmEvent::Kind::kAccelerator:
      thread.accelerator_event = vmm_event_.name;
      return;
    case VmmEvent::Kind::kDevice: {
      thread.device_event = thread.before_access = vmm_event_.name;
      if (thread.accesses == 0) return;
      Access& access = thread.access[thread.accesses - 1u];
      if (access.after == kNoName) access.after = vmm_event_.name;
      return;
    }
    default:
      break;
  }
  // Full: the latest takes the last place, unless that is the exit's own already.
  if (thread.accesses == thread.access.size()) {
    const Access& last = thread.access.back();
    if (thread.span.detail.kind <= DetailKind::kMmio &&
        last.region.address == thread.span.detail.value) {
      return;
    }
    --thread.accesses;
  }
  thread.access[thread.accesses++] = {vmm_event_, std::exchange(thread.before_access, kNoName),
                                      kNoName};
}

}  // namespace trapline
