#include "merge/source/trace_dat/compression.h"

#include <zstd.h>

#include <memory>

#include "backend_ftrace/base/text.h"

namespace trapline::trace_dat {

std::optional<std::size_t> decompress(std::span<const std::byte> block, std::span<std::byte> into) {
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  thread_local const std::unique_ptr<ZSTD_DCtx, Free> context{ZSTD_createDCtx()};
  if (!context) return std::nullopt;
  const std::size_t size =
      ZSTD_decompressDCtx(context.get(), into.data(), into.size(), block.data(), block.size());
  if (ZSTD_isError(size) != 0) return std::nullopt;
  return size;
}

tl::unexpected<Error> unsupported_compression(const File& file, const std::string& algorithm) {
  return fail(
      "{}: compressed with '{}', which is not supported; convert it with "
      "trace-cmd convert --compression zstd",
      file.path(), printable(algorithm));
}

}  // namespace trapline::trace_dat
