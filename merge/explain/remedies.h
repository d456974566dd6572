// Changes that advise knows: how the exits that they concern are told, and the line to type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "merge/model/exit_span.h"

namespace trapline {

// How the gain of a change is computed: docs/advise.md, "Models".
enum class AdviceModel : std::uint8_t {
  kRemoved,  // the exits go
  kBatched,  // of accesses one after another one exit stays
  kPages,    // page faults but the first of each 2 MiB go
  kWaits,    // the waits for a culprit go
  kPolling,  // halts are replayed
  kNone,     // no model is validated: no figure
};

struct Remedy {
  AdviceModel model;
  std::string_view id, cause, change;
  std::string_view elsewhere;  // what it costs elsewhere
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
  kCpus,
  kQuota,
  kInterrupts,
  kIothread,
  kPolling,
  kTimers,
  kApic,
  kCpuid,
  kNone,
};
inline constexpr std::size_t kRemedies = static_cast<std::size_t>(RemedyId::kNone);
[[nodiscard]] const Remedy& remedy_of(RemedyId id);
[[nodiscard]] std::string_view assumption_of(AdviceModel model);
// What of a change's line is left for this VMM: QEMU's options are none for another one; what the
// guest or the host can do is.
[[nodiscard]] std::string change_for_vmm(const std::string& change, std::string_view vmm);

// The change that concerns accesses of this device of QEMU; kNone: none is known.
[[nodiscard]] RemedyId remedy_of_device(std::string_view device);
// The same by port and address, of an exit of x86 whose device no event names; KVM itself serves
// the interrupt controllers, and keeps some writes for QEMU.
[[nodiscard]] RemedyId remedy_of_address(const KvmDetail& detail, bool to_user);
// Of exits that KVM serves itself.
[[nodiscard]] RemedyId remedy_of_kernel_exit(const ExitSpan& exit);

}  // namespace trapline
