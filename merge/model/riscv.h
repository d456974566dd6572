// RISC-V: causes of a trap (scause) that say more than their name.
#pragma once

#include <cstdint>

namespace trapline {

inline constexpr std::uint32_t kRiscvInterrupt = 1u << 31, kRiscvWfi = 1;
inline constexpr std::uint32_t kRiscvFetchFault = 20, kRiscvLoadFault = 21,
                               kRiscvVirtualInstruction = 22, kRiscvStoreFault = 23;

}  // namespace trapline
