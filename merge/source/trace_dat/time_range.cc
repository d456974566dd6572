#include "merge/source/trace_dat/time_range.h"

#include <algorithm>

#include "merge/source/trace_dat/page_reader.h"
#include "merge/source/trace_dat/ring_page.h"

namespace trapline::trace_dat {
namespace {

using Range = std::optional<std::pair<std::uint64_t, std::uint64_t>>;

void widen(Range& range, std::uint64_t time) {
  if (!range) range.emplace(time, time);
  range->first = std::min(range->first, time);
  range->second = std::max(range->second, time);
}

void widen(Range& range, std::span<const std::byte> page, const Layout& layout, std::uint32_t cpu) {
  RingPage walk;
  if (page.size() < 8 || !walk.load(page, layout.long_size, layout.order)) return;
  const auto shifted = [&](std::uint64_t time) {
    return layout.time_shift ? (*layout.time_shift)(cpu, time) : time;
  };
  const auto own = load<std::uint64_t>(page.data(), layout.order);
  if (own != 0) widen(range, shifted(own));  // 0: a page that was never written
  for (kernel_events::RecordedEvent event; walk.next(event);) widen(range, shifted(event.time));
}

// What comes after `fraction` of a CPU's data; of the beginning, one page.
void look(const File& file, const Layout& layout, const Buffer& buffer, const CpuPages& cpu,
          double fraction, Range& range) {
  constexpr std::size_t kAtOnce = 64u << 10;
  PageReader reader(file, cpu.pages, buffer.page_size, kAtOnce, layout.order);
  if (!reader.skip_to(fraction)) return;
  for (bool more = true; more; more = fraction > 0) {
    const auto page = reader.next();
    if (!page || page->empty()) return;
    widen(range, *page, layout, cpu.cpu);
  }
}

}  // namespace

Range time_range(const File& file, const Layout& layout) {
  Range range;
  for (const Buffer& buffer : layout.buffers) {
    if (buffer.page_size == 0) continue;
    for (const CpuPages& cpu : buffer.cpus) {
      if (cpu.pages.size == 0) continue;
      const double pages = static_cast<double>(cpu.pages.size) / buffer.page_size;
      look(file, layout, buffer, cpu, 0, range);
      look(file, layout, buffer, cpu, std::max(0.01, 1 - 1.5 / pages), range);
    }
  }
  return range;
}

}  // namespace trapline::trace_dat
