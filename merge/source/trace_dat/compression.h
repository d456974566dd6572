// Decompresses the blocks of a compressed trace.dat: zstd, as Debian's trace-cmd writes, or zlib,
// as a trace-cmd without libzstd writes. Both have the same container.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

struct ZSTD_DCtx_s;

namespace trapline::trace_dat {

struct FreeZstd {
  void operator()(ZSTD_DCtx_s* context) const;
};
using ZstdContext = std::unique_ptr<ZSTD_DCtx_s, FreeZstd>;

enum class Compression : std::uint8_t { kNone, kZstd, kZlib };
// Finds an algorithm by the name in the file's header, such as "zstd"; nullopt if it is not
// supported.
[[nodiscard]] std::optional<Compression> compression_named(std::string_view name);

// Returns whether `compressed` bytes may have been `size` bytes before. The limit prevents a small
// file from expanding to a huge recording; even pages with only one event each stay far below it.
[[nodiscard]] constexpr bool is_plausible_ratio(std::uint64_t compressed, std::uint64_t size) {
  constexpr std::uint64_t kMost = 1024, kHead = 4096;
  return size <= kHead + kMost * compressed;
}

// Decompresses one block into `into`. Returns the number of bytes; nullopt if the block is damaged
// or does not fit.
[[nodiscard]] std::optional<std::size_t> decompress(Compression algorithm,
                                                    std::span<const std::byte> block,
                                                    std::span<std::byte> into);

}  // namespace trapline::trace_dat
