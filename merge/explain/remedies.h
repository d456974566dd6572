// The changes that advise knows: how to recognise the exits that they concern, and the line to
// type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "merge/analyze/page_faults.h"
#include "merge/model/exit_span.h"

namespace trapline {

// How the gain of a change is computed: docs/advise.md, "Models".
enum class AdviceModel : std::uint8_t {
  kRemoved,  // the exits go
  kBatched,  // one exit stays for each series of consecutive accesses
  kPages,    // page faults go, except the first in each 2 MiB
  kWaits,    // the waits for a culprit go
  kPolling,  // halts are replayed
  kRuns,     // a thread's runs that did nothing else go: CPU time of the host
  kPolls,    // polls in halts go: CPU time of the host
  kBound,    // CPU time of the host goes, and it is not known what takes its place
  kNone,     // no model is validated: no figure
};

struct Remedy {
  AdviceModel model;
  std::string_view id, cause, change;
  std::string_view elsewhere;  // side effects elsewhere
};

enum class RemedyId : std::uint8_t {
  kDebugPort,
  kSerial,
  kRtc,
  kHpet,
  kPmTimer,
  kPit,
  kIde,
  kVga,
  kPs2,
  kNotify,
  kIrqchip,
  kPages,
  kServed,
  kFilePages,
  kSwapped,
  kMerged,
  kCpus,
  kQuota,
  kInterrupts,
  kIothread,
  kPolling,
  kTicks,
  kTimerLine,
  kHaltPolls,
  kIothreadPolls,
  kWakeups,
  kTimers,
  kApic,
  kX2apic,
  kCpuid,
  kNone,
};
inline constexpr std::size_t kRemedies = static_cast<std::size_t>(RemedyId::kNone);
[[nodiscard]] const Remedy& remedy_of(RemedyId id);
[[nodiscard]] std::string_view assumption_of(AdviceModel model);
// Returns the part of a change's line that applies to this VMM: QEMU's options do not apply to
// another one, changes of the guest or the host do.
[[nodiscard]] std::string change_for_vmm(const std::string& change, std::string_view vmm);

// Returns the change for accesses to this device of QEMU; kNone if none is known.
[[nodiscard]] RemedyId remedy_of_device(std::string_view device);
// Returns the change for accesses to a port or an address, for an exit of x86 whose device no event
// names. `to_user`: the exit went to QEMU. If it did not, KVM served an interrupt controller
// itself, or keeps the write for QEMU, and kIrqchip does not help.
[[nodiscard]] RemedyId remedy_of_address(const KvmDetail& detail, bool to_user);
// Returns the change for a page fault; `remover`: the name of the thread that had removed the page
// from the guest.
[[nodiscard]] RemedyId remedy_of_fault(const PageFault& fault, std::string_view remover);
// Returns the change for exits that KVM serves itself.
[[nodiscard]] RemedyId remedy_of_kernel_exit(const ExitSpan& exit);

}  // namespace trapline
