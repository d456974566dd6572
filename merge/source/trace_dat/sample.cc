#include "merge/source/trace_dat/sample.h"

#include <algorithm>
#include <limits>

#include "merge/source/kernel_events/capability_looker.h"
#include "merge/source/trace_dat/cpu_events.h"

namespace trapline::trace_dat {
namespace {

constexpr std::size_t kBufferSize = 64u << 10;
constexpr std::uint64_t kEventsPerLook = 2048;

Result<void> look_at(const File& file, const Layout& layout, CapabilityLooker& looker,
                     const std::vector<double>& places, std::uint64_t events_each) {
  for (const Buffer& buffer : layout.buffers) {
    for (const CpuPages& pages : buffer.cpus) {
      CpuEvents events(file, pages, buffer.page_size, layout.long_size, kBufferSize, nullptr);
      for (const double place : places) {
        if (place > 0) {
          if (auto skipped = events.skip_to(place); !skipped) return skipped;
        }
        for (std::uint64_t i = 0; i < events_each && events.advance(); ++i) {
          looker.look(events.peek());
        }
        if (!events.status()) return events.status();
      }
    }
  }
  return {};
}

}  // namespace

Result<Capabilities> sample_capabilities(const File& file, const Layout& layout,
                                         const Formats& formats) {
  CapabilityLooker looker(formats);
  auto looked = look_at(file, layout, looker, {0, 0.5, 0.98}, kEventsPerLook);
  if (looked && !looker.found().kvm_exit && !looker.is_complete()) {
    looked = look_at(file, layout, looker, {0}, std::numeric_limits<std::uint64_t>::max());
  }
  if (!looked) return tl::unexpected(std::move(looked).error());
  return looker.found();
}

}  // namespace trapline::trace_dat
