#include "merge/source/trace_dat/compression.h"

#include <zlib.h>
#include <zstd.h>

namespace trapline::trace_dat {
namespace {

std::optional<std::size_t> unzstd(std::span<const std::byte> block, std::span<std::byte> into) {
  thread_local const ZstdContext context{ZSTD_createDCtx()};
  if (!context) return std::nullopt;
  const std::size_t size =
      ZSTD_decompressDCtx(context.get(), into.data(), into.size(), block.data(), block.size());
  if (ZSTD_isError(size) != 0) return std::nullopt;
  return size;
}

std::optional<std::size_t> unzlib(std::span<const std::byte> block, std::span<std::byte> into) {
  uLongf size = into.size();
  if (::uncompress(reinterpret_cast<Bytef*>(into.data()), &size,
                   reinterpret_cast<const Bytef*>(block.data()), block.size()) != Z_OK)
    return std::nullopt;
  return size;
}

}  // namespace

void FreeZstd::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

std::optional<Compression> compression_named(std::string_view name) {
  if (name.empty() || name == "none") return Compression::kNone;
  if (name == "zstd") return Compression::kZstd;
  if (name == "zlib") return Compression::kZlib;
  return std::nullopt;
}

std::optional<std::size_t> decompress(Compression algorithm, std::span<const std::byte> block,
                                      std::span<std::byte> into) {
  return algorithm == Compression::kZlib ? unzlib(block, into) : unzstd(block, into);
}

}  // namespace trapline::trace_dat
