// Pieces of ring-buffer pages: pages of their own that hold some of a page's events, byte by byte
// as the kernel wrote them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "merge/source/trace_dat/ring_page.h"

namespace trapline::record {

// The recorded kernel's long is this machine's.
inline constexpr std::uint32_t kCommitSize = sizeof(long);
inline constexpr std::size_t kPageHead = 8 + kCommitSize;

struct PageFacts {
  std::uint64_t first = 0, last = 0;  // stamps, the smallest and the largest
  std::uint32_t events = 0;
  std::size_t used = 0;   // bytes of head and events
  std::int64_t lost = 0;  // before the page, as RingPage::lost()
};
// A page in memory, no more of it than its events: one that was read while it filled is short.
struct HeldPage {
  HeldPage(std::span<const std::byte> page, const PageFacts& of)
      : bytes(std::make_unique_for_overwrite<std::byte[]>(of.used)), facts(of) {
    std::memcpy(bytes.get(), page.data(), of.used);
  }
  // Beside its bytes: this, and what the allocator takes.
  static constexpr std::size_t kOverhead = 64;
  std::unique_ptr<std::byte[]> bytes;
  PageFacts facts;
  [[nodiscard]] std::span<const std::byte> span() const { return {bytes.get(), facts.used}; }
};
// Nothing where it is no ring-buffer page.
[[nodiscard]] std::optional<PageFacts> look_at_page(std::span<const std::byte> page);

// The events of a page from the first one stamped `from` or later up to the last one before any
// that is stamped after `to`.
struct CutPage {
  std::uint32_t skipped = 0;  // events of the page before the piece
  std::uint32_t events = 0;
  std::uint64_t last = 0;  // the last one's stamp
  std::size_t used = 0;    // bytes of `out`, the rest of it is zero
};
// `out` has the size of the recording's pages and at least that of `page`. Without events nothing
// is written.
[[nodiscard]] CutPage cut_page(std::span<const std::byte> page, std::uint64_t from,
                               std::uint64_t to, std::span<std::byte> out);

// Marks a page as the kernel does where events were lost before it: RingPage::kUnknownLost, or how
// many, which a page without room for the number cannot tell.
void mark_missed(std::span<std::byte> page, std::size_t used, std::int64_t lost);

}  // namespace trapline::record
