// The VMMs that are known, one by one and together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "merge/model/event.h"

namespace trapline {

// What is known of a virtual machine monitor: the names of its threads, and what its trace events
// mean. One implementation for each VMM (qemu.cc, and those in vmms.cc), all of them
// listed in vmms.cc; the analysis asks this interface and names no VMM itself.
//
// Nothing here is asked for each event: callers ask once for each event name, thread name or
// process, and keep the answer (by NameId). Answers point to constants and stay valid.
enum class VmmEventKind : std::uint8_t {
  kDevice,       // an event of a device or a subsystem
  kAccelerator,  // tells of the run itself, not of who served it (QEMU: kvm_*)
  kRegionRead,   // an access to a device's registers: traced after its read function ran,
  kRegionWrite,  // and before its write function runs
  kVmState,      // the VMM has stopped its vCPUs, or lets them run again
};

// Where an event says something: the argument's name where the program's trace-events-all declares
// the event, and the text before its value where none does. Empty: the event does not say it.
struct VmmEventField {
  std::string_view argument, before;
};
struct VmmEventMeaning {
  VmmEventKind kind = VmmEventKind::kDevice;
  VmmEventField address;       // port or guest-physical address, hexadecimal
  VmmEventField region;        // the device's or region's name, to the last quote of the text
  VmmEventField vcpu;          // decimal
  VmmEventField running = {};  // 0: they are stopped
};

// Asynchronous work: begins where the event `start` carries a number in its argument `start_field`,
// ends where `end` carries the same.
struct RequestSpec {
  std::string start, start_field, end, end_field;
  [[nodiscard]] std::string name() const { return start + ".." + end; }
};

// What an event makes of a request's way from the guest's notify to its interrupt.
enum class RequestStep : std::uint8_t {
  kUnknown,           // not asked yet
  kQueueNotify,       // the guest's notify arrives
  kNotify,            // the VMM tells the guest
  kDeferrableNotify,  // the VMM tells the guest, now or when it is done with a batch
  kDeferredNotify,    // … of what kDeferrableNotify put off
  kPartOfNotify,      // comes between a request's end and its interrupt
  kDevice,            // another event of the device that serves requests
  kOther,
};
// The arguments of these events, empty where the VMM's have none.
struct RequestFields {
  std::string_view device, queue, queue_number;
};

// The read or write that a request's first event tells of: the arguments that name the request, its
// first sector and its number of sectors, of 512 bytes each.
struct RequestTransfer {
  bool write;
  std::string_view request, sector, sectors;
};

class VmmKnowledge {
 public:
  VmmKnowledge() = default;
  VmmKnowledge(const VmmKnowledge&) = delete;
  VmmKnowledge& operator=(const VmmKnowledge&) = delete;
  virtual ~VmmKnowledge() = default;

  // As its project writes it: "Cloud Hypervisor".
  [[nodiscard]] virtual std::string_view name() const = 0;

  // The vCPU that a thread of this name runs, or kNoVcpu. The kernel cuts names to 15 characters.
  [[nodiscard]] virtual std::int32_t vcpu_of_thread(std::string_view comm) const = 0;
  // Whether a process of this name is this VMM.
  [[nodiscard]] virtual bool is_process(std::string_view comm) const = 0;

  // The event's meaning, or nullptr where this VMM has no event of this name or it says nothing of
  // an access, a vCPU or the run.
  [[nodiscard]] virtual const VmmEventMeaning* event(std::string_view) const { return nullptr; }

  [[nodiscard]] virtual std::span<const RequestSpec> requests() const { return {}; }
  // kOther for events that are not of a request's way.
  [[nodiscard]] virtual RequestStep request_step(std::string_view) const {
    return RequestStep::kOther;
  }
  [[nodiscard]] virtual RequestFields request_fields() const { return {}; }
  // nullptr for events that begin no read or write of a disk.
  [[nodiscard]] virtual const RequestTransfer* transfer(std::string_view) const { return nullptr; }
};

// Each of them; the first that knows a name is believed.
[[nodiscard]] std::span<const VmmKnowledge* const> vmms();
// All of them as one: a recording may hold several, and a marker does not say whose it is.
[[nodiscard]] const VmmKnowledge& any_vmm();

// any_vmm().vcpu_of_thread(): "CPU 3/KVM", "fc_vcpu 3", "vcpu3", "crosvm_vcpu3", "kvm-vcpu-3".
[[nodiscard]] std::int32_t vcpu_of_name(std::string_view comm);
// The requests of all VMMs.
[[nodiscard]] const std::vector<RequestSpec>& known_requests();

// What follows `prefix` when it is a decimal number and nothing comes after it, else kNoVcpu.
[[nodiscard]] std::int32_t number_after_prefix(std::string_view text, std::string_view prefix);

}  // namespace trapline
