// What holds the worker, set before it reads the first byte of a message: nothing that its
// libraries are made to do reaches further than its memory and its socket.
#pragma once

#include <cstdint>

namespace trapline::worker {

// Bits of WorkerStatus. `memory` bytes of address space, `seconds` of processor time; 0: no limit.
// Started by root it has a uid of its own and no capability. Where the kernel has no seccomp the
// limits alone hold.
std::uint32_t confine(std::uint64_t memory, std::uint64_t seconds);

// The filter as a scmp_filter_ctx, for one of libseccomp's architectures; null: it cannot be made.
[[nodiscard]] void* make_filter(std::uint32_t architecture);

}  // namespace trapline::worker
