// One step of an interrupt's way to a guest, as the kernel tells it.
#pragma once

#include <cstdint>

namespace trapline {

enum class IrqStep : std::uint8_t {
  kLine,
  kMsi,
  kRoute,
  kAccept,
  kInject,
  kEoi,
  kPending,
  kPic,    // the PIC latches the line; masked: level is false
  kPicEnd  // the guest ended the PIC's interrupt
};
struct KvmIrq {
  IrqStep step;
  bool level;            // kLine, kPending: raised or lowered; kInject: false: tried once more
  std::uint32_t pin;     // kLine: gsi; kPending: interrupt number; kPic*: chip * 8 + pin
  std::uint32_t vector;  // where the step knows it, else kNoVector
  std::int32_t vcpu;     // kAccept, kEoi, posted kInject: APIC id; kPending: vCPU
};
inline constexpr std::uint32_t kNoVector = 0xffffffff;

}  // namespace trapline
