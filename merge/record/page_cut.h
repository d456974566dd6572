// Cuts ring-buffer pages: makes pages that contain some of a page's events, byte by byte as the
// kernel wrote them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "merge/source/trace_dat/ring_page.h"

namespace trapline::record {

// The size of a page's commit field: the kernel's long, which is as long as this program's.
inline constexpr std::uint32_t kCommitSize = sizeof(long);
inline constexpr std::size_t kPageHead = 8 + kCommitSize;

struct PageFacts {
  std::uint64_t first = 0, last = 0;  // the smallest and the largest stamp
  std::uint32_t events = 0;
  std::size_t used = 0;   // bytes of head and events
  std::int64_t lost = 0;  // events lost before the page, as RingPage::lost()
};
// A page in memory, cut off after its last event, so that a page that was read before it was full
// takes little memory.
struct KeptPage {
  KeptPage(std::span<const std::byte> page, const PageFacts& of)
      : bytes(std::make_unique_for_overwrite<std::byte[]>(of.used)), facts(of) {
    std::memcpy(bytes.get(), page.data(), of.used);
  }
  // Bytes besides the page's: this struct, and what the allocator needs.
  static constexpr std::size_t kOverhead = 64;
  std::unique_ptr<std::byte[]> bytes;
  PageFacts facts;
  [[nodiscard]] std::span<const std::byte> span() const { return {bytes.get(), facts.used}; }
};
// Returns nullopt if `page` is not a ring-buffer page.
[[nodiscard]] std::optional<PageFacts> look_at_page(std::span<const std::byte> page);

// A piece that cut_page() made of a page: from the page's first event at or after `from` until
// before its first event after `to`.
struct CutPage {
  std::uint32_t skipped = 0;  // number of the page's events before the piece
  std::uint32_t events = 0;
  std::uint64_t last = 0;  // stamp of the last event
  std::size_t used = 0;    // bytes of `out`; the rest is zero
};
// Writes the piece of a page into `out`, which has the size of the recording's pages and at least
// that of `page`. If the piece has no events, nothing is written.
[[nodiscard]] CutPage cut_page(std::span<const std::byte> page, std::uint64_t from,
                               std::uint64_t to, std::span<std::byte> out);

// Marks a page as the kernel does if events were lost before it. `lost` is RingPage::kUnknownLost
// or the number of lost events, which is left out if the page has no room for it.
void mark_missed(std::span<std::byte> page, std::size_t used, std::int64_t lost);

}  // namespace trapline::record
