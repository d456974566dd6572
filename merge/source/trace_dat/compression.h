// The blocks of a compressed trace.dat: zstd, as Debian's trace-cmd writes them, or zlib, as one
// that was built without libzstd does. Both have the same container.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace trapline::trace_dat {

enum class Compression : std::uint8_t { kNone, kZstd, kZlib };
// "zstd", as the file's header names it; nothing of an algorithm that is not read.
[[nodiscard]] std::optional<Compression> compression_named(std::string_view name);

// Whether so many bytes may come of so few: pages of one event each, with a time of their own, stay
// far below it. A recording is as long as what is in it, and a small file must not hold a long one.
[[nodiscard]] constexpr bool is_plausible_ratio(std::uint64_t compressed, std::uint64_t size) {
  constexpr std::uint64_t kMost = 1024, kHead = 4096;
  return size <= kHead + kMost * compressed;
}

// Decompresses one block into `into`; the number of bytes, or nothing when the block is damaged or
// holds more.
[[nodiscard]] std::optional<std::size_t> decompress(Compression algorithm,
                                                    std::span<const std::byte> block,
                                                    std::span<std::byte> into);

}  // namespace trapline::trace_dat
