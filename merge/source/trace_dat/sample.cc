#include "merge/source/trace_dat/sample.h"

#include <limits>
#include <optional>

#include "merge/source/kernel_events/capability_looker.h"
#include "merge/source/trace_dat/cpu_events.h"

namespace trapline::trace_dat {
namespace {

constexpr std::size_t kBufferSize = 64u << 10;
constexpr std::uint64_t kEventsPerLook = 2048;

struct Looked {
  std::uint64_t events = 0, damaged_pages = 0;
};
Result<Looked> look_at(const File& file, const Layout& layout,
                       kernel_events::CapabilityLooker& looker, const std::vector<double>& places,
                       std::uint64_t events_each) {
  Looked seen;
  for (const Buffer& buffer : layout.buffers) {
    for (const CpuPages& pages : buffer.cpus) {
      CpuEvents events(file, layout, pages, buffer.page_size, kBufferSize, nullptr);
      for (const double place : places) {
        if (place > 0) {
          if (auto skipped = events.skip_to(place); !skipped)
            return tl::unexpected(std::move(skipped).error());
        }
        for (std::uint64_t i = 0; i < events_each && events.advance(); ++i) {
          looker.look(events.peek());
          if (events.peek().data != nullptr) ++seen.events;
        }
        if (!events.status()) return tl::unexpected(events.status().error());
      }
      seen.damaged_pages += events.page_counts().damaged;
    }
  }
  return seen;
}

// Returns whether the thread on a CPU changes before that CPU's first sched_switch and first loss.
// If so, sched_switch was enabled later than the other events.
bool switches_come_late(const File& file, const Layout& layout,
                        const kernel_events::Formats& formats) {
  if (layout.buffers.size() != 1) return false;  // each buffer has events of its own
  const Buffer& buffer = layout.buffers.front();
  for (const CpuPages& pages : buffer.cpus) {
    CpuEvents events(file, layout, pages, buffer.page_size, kBufferSize, nullptr);
    std::optional<ThreadId> last;
    for (std::uint64_t i = 0; i < kEventsPerLook && events.advance(); ++i) {
      Event event;
      if (last && events.lost_before() != RingPage::kNoneLost) break;
      if (events.peek().data == nullptr || !formats.decode(events.peek(), event)) continue;
      if (std::holds_alternative<SchedSwitch>(event.payload)) break;
      if (last && *last != event.thread) return true;
      last = event.thread;
    }
  }
  return false;
}

}  // namespace

tl::unexpected<Error> no_events(const File& file, const Layout& layout) {
  if (layout.cut) {
    return fail(ErrorKind::kDamaged,
                "{}: cut off before the first of its events: {}; copy it again, or record again",
                file.path(), *layout.cut);
  }
  if (layout.has_text) {
    return fail(ErrorKind::kDamaged,
                "{}: holds a latency tracer's text instead of events; record events (-e), not -p",
                file.path());
  }
  return fail(ErrorKind::kDamaged,
              "{}: holds no events: every CPU's data is empty; was anything enabled while it was "
              "recorded, and the recording ended as it should?",
              file.path());
}

Result<Capabilities> sample_capabilities(const File& file, const Layout& layout,
                                         const kernel_events::Formats& formats) {
  kernel_events::CapabilityLooker looker(formats);
  auto looked = look_at(file, layout, looker, {0, 0.5, 0.98}, kEventsPerLook);
  if (looked && !looker.found().kvm_exit && !looker.is_complete())
    looked = look_at(file, layout, looker, {0}, std::numeric_limits<std::uint64_t>::max());
  if (!looked) return tl::unexpected(std::move(looked).error());
  if (looked->events == 0 && looked->damaged_pages != 0) {
    return fail(ErrorKind::kDamaged,
                "{}: damaged: none of its pages can be read; copy it again, or record again",
                file.path());
  }
  if (looked->events == 0) return no_events(file, layout);
  Capabilities found = looker.found();
  found.moves |= layout.cpu_count == 1;
  found.late_switches = found.sched_switch && switches_come_late(file, layout, formats);
  return found;
}

}  // namespace trapline::trace_dat
