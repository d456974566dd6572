// The blocks of a compressed trace.dat. Debian's trace-cmd writes zstd; others are named in an
// error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "merge/source/file.h"

namespace trapline::trace_dat {

// Whether so many bytes may come of so few: pages of one event each, with a time of their own, stay
// far below it. A recording is as long as what is in it, and a small file must not hold a long one.
[[nodiscard]] constexpr bool is_plausible_ratio(std::uint64_t compressed, std::uint64_t size) {
  constexpr std::uint64_t kMost = 1024, kHead = 4096;
  return size <= kHead + kMost * compressed;
}

// Decompresses one zstd block into `into`; the number of bytes, or nothing when the block is
// damaged or holds more.
[[nodiscard]] std::optional<std::size_t> decompress(std::span<const std::byte> block,
                                                    std::span<std::byte> into);

[[nodiscard]] tl::unexpected<Error> unsupported_compression(const File& file,
                                                            const std::string& algorithm);

}  // namespace trapline::trace_dat
