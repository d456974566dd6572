// What holds the worker, set before it reads the first byte of a message: nothing that its
// libraries are made to do reaches further than its memory and its socket.
#pragma once

#include <cstdint>

namespace trapline::worker {

// Bits of WorkerStatus. `memory` bytes of address space, `seconds` of processor time; 0: no limit.
// Where the kernel has no seccomp the limits alone hold.
std::uint32_t confine(std::uint64_t memory, std::uint64_t seconds);

}  // namespace trapline::worker
