// The VMMs that are known, individually and together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "merge/model/event.h"

namespace trapline {

// The kinds of a VMM's trace events.
enum class VmmEventKind : std::uint8_t {
  kDevice,       // an event of a device or a subsystem
  kRegionRead,   // an access to a device's registers, traced after the device's read function ran
  kRegionWrite,  // the same, traced before the device's write function runs
  kVmState,      // the VMM has stopped its vCPUs or lets them run again
  kAccelerator,  // concerns the run itself, not who served it (QEMU: kvm_*)
  kRunExit,      // the same: KVM_RUN returned to the VMM with a reason
  kVcpuIoctl,    // the same: the VMM calls an ioctl of a vCPU, such as KVM_RUN
};

// The place of a value in an event: the argument's name, if the program's trace-events-all declares
// the event, and the text before the value otherwise. Empty: the event does not have the value.
struct VmmEventField {
  std::string_view argument, before;
};
struct VmmEventMeaning {
  VmmEventKind kind = VmmEventKind::kDevice;
  VmmEventField address;  // port or guest-physical address, hexadecimal
  VmmEventField region;   // name of the device or region, up to the last quote of the text
  VmmEventField vcpu;     // decimal
  // kVmState: 0 if the vCPUs are stopped; kRunExit: the reason; kVcpuIoctl: the ioctl, hexadecimal.
  VmmEventField number = {};
};

// Asynchronous work: begins at the event `start` with a number in its argument `start_field`, and
// ends at the event `end` with the same number.
struct RequestSpec {
  std::string start, start_field, end, end_field;
  [[nodiscard]] std::string name() const { return start + ".." + end; }
};

// The step of a request, from the guest's notify to its interrupt, that an event shows.
enum class RequestStep : std::uint8_t {
  kUnknown,           // not looked up yet
  kQueueNotify,       // the guest's notify arrives
  kNotify,            // the VMM tells the guest
  kDeferrableNotify,  // the VMM tells the guest, now or after a batch
  kDeferredNotify,    // the VMM tells the guest what kDeferrableNotify deferred
  kPartOfNotify,      // comes between a request's end and its interrupt
  kDevice,            // another event of the device that serves requests
  kOther,
};
// The arguments of the events that show a RequestStep.
struct RequestFields {
  std::string_view device, queue, queue_number;
};
inline constexpr RequestFields kRequestFields{"vdev", "vq", "n"};

// The read or write that a request's first event describes: the arguments for the request, its
// first sector, and its number of sectors of 512 bytes.
struct RequestTransfer {
  bool write;
  std::string_view request, sector, sectors;
};

// Knowledge of a virtual machine monitor: the names of its threads and the meaning of its trace
// events. vmms.cc lists all VMMs; the analysis asks them and names no VMM itself.
//
// Callers ask once for each event name, thread name or process, not for each event, and store the
// answer (by NameId). Answers point to constants and stay valid.
struct Vmm {
  // The VMM's name as its project writes it: "Cloud Hypervisor".
  std::string_view name;
  // Returns the vCPU that a thread with this name runs, or kNoVcpu. The kernel cuts names to 15
  // characters.
  std::int32_t (*vcpu_of_thread)(std::string_view comm);
  // Returns whether a process with this name is this VMM.
  bool (*is_process)(std::string_view comm);
  // Returns the event's meaning; nullptr if this VMM has no such event, or if the event shows
  // nothing about an access, a vCPU or the run.
  const VmmEventMeaning* (*event)(std::string_view name) = [](std::string_view) {
    return static_cast<const VmmEventMeaning*>(nullptr);
  };
};

// Returns all known VMMs; the first that knows a name is right.
[[nodiscard]] std::span<const Vmm> vmms();

// The answers of all VMMs together: a recording may contain several, and a marker does not show
// which one wrote it.

// Returns the vCPU in a thread's name: "CPU 3/KVM", "fc_vcpu 3", "vcpu3", "crosvm_vcpu3",
// "kvm-vcpu-3".
[[nodiscard]] std::int32_t vcpu_of_name(std::string_view comm);
[[nodiscard]] bool is_vmm_process(std::string_view comm);
[[nodiscard]] const VmmEventMeaning* vmm_event_meaning(std::string_view name);

// Only QEMU's events show requests so far; with a second VMM, the step would have to include the
// fields.

[[nodiscard]] const std::vector<RequestSpec>& known_requests();
// Returns kOther for events that are not a step of a request.
[[nodiscard]] RequestStep request_step(std::string_view event);
// Returns nullptr for events that do not begin a disk's read or write.
[[nodiscard]] const RequestTransfer* request_transfer(std::string_view event);

// Returns the decimal number after `prefix` if nothing follows it, else kNoVcpu.
[[nodiscard]] std::int32_t number_after_prefix(std::string_view text, std::string_view prefix);

}  // namespace trapline
