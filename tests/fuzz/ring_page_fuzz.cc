// One page of the ring buffer, with a long of 8 and of 4 bytes.
#include <cstdlib>

#include "merge/source/trace_dat/ring_page.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trapline::trace_dat;
  const auto page = std::as_bytes(std::span(data, size));
  for (const std::uint32_t commit_size : {8u, 4u}) {
    RingPage walk;
    if (!walk.load(page, commit_size)) continue;
    RingPage at_once = walk;
    trapline::kernel_events::RecordedEvent event;
    at_once.take_all([&](const trapline::kernel_events::RecordedEvent& taken) {
      if (!walk.next(event) || event.data != taken.data || event.size != taken.size ||
          event.time != taken.time || event.data < page.data() ||
          event.data + event.size > page.data() + page.size())
        std::abort();
    });
    if (walk.next(event) || walk.damaged() != at_once.damaged()) std::abort();
  }
  return 0;
}
