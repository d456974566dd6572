// One undecoded event of a ring buffer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trapline::kernel_events {

struct RecordedEvent {
  std::uint64_t time = 0;  // on the buffer's clock
  const std::byte* data = nullptr;
  std::uint32_t size = 0;
};

}  // namespace trapline::kernel_events
