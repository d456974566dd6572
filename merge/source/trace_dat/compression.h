// The blocks of a compressed trace.dat. Debian's trace-cmd writes zstd; others are named in an
// error.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "merge/source/file.h"

namespace trapline::trace_dat {

// Decompresses one zstd block into `into`; the number of bytes, or nothing when the block is
// damaged or holds more.
[[nodiscard]] std::optional<std::size_t> decompress(std::span<const std::byte> block,
                                                    std::span<std::byte> into);

[[nodiscard]] tl::unexpected<Error> unsupported_compression(const File& file,
                                                            const std::string& algorithm);

}  // namespace trapline::trace_dat
