#include "merge/source/trace_dat/compression.h"

#include <zlib.h>
#include <zstd.h>

#include <limits>
#include <memory>

namespace trapline::trace_dat {
namespace {

std::optional<std::size_t> unzstd(std::span<const std::byte> block, std::span<std::byte> into) {
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

// Keeps zlib's tables, so that they are made once and not for each block.
struct Inflater {
  z_stream stream{};
  bool usable = ::inflateInit(&stream) == Z_OK;
  Inflater() = default;
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (usable) ::inflateEnd(&stream);
  }
};

std::optional<std::size_t> unzlib(std::span<const std::byte> block, std::span<std::byte> into) {
  thread_local Inflater inflater;
  z_stream& stream = inflater.stream;
  constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
  if (!inflater.usable || block.size() > kMost || into.size() > kMost ||
      ::inflateReset(&stream) != Z_OK)
    return std::nullopt;
  // zlib does not write to its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(block.data()));
  stream.avail_in = static_cast<uInt>(block.size());
  stream.next_out = reinterpret_cast<Bytef*>(into.data());
  stream.avail_out = static_cast<uInt>(into.size());
  if (::inflate(&stream, Z_FINISH) != Z_STREAM_END) return std::nullopt;
  return into.size() - stream.avail_out;
}

}  // namespace

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
