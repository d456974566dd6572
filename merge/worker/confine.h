// Confines the worker before it reads the first byte of a message, so that nothing that its
// libraries are made to do reaches beyond its memory and its socket.
#pragma once

#include <cstdint>

namespace trapline::worker {

// Confines this process to `memory` bytes of address space, `seconds` of processor time (0: no
// limit) and, if the kernel has seccomp, to a few system calls. A worker started by root takes a
// uid of its own if it can, and has no capability. Returns bits of WorkerStatus.
std::uint32_t confine(std::uint64_t memory, std::uint64_t seconds);

// Returns the worker's seccomp filter, a scmp_filter_ctx, for one of libseccomp's architectures;
// null if it cannot be made.
[[nodiscard]] void* make_filter(std::uint32_t architecture);

}  // namespace trapline::worker
