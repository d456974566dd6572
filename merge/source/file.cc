#include "merge/source/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "merge/source/stream_copy.h"

namespace trapline {

Result<File> File::open(std::string path) {
  auto fd = open_readable(path);
  if (!fd) return tl::unexpected(std::move(fd).error());
  struct stat status {};
  if (::fstat(fd->get(), &status) != 0) return fail("{}: {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    return fail("{}: not a regular file; name a trace.dat or a session folder", path);
  if (status.st_size == 0) {
    return fail(ErrorKind::kDamaged, "{}: the file is empty; was the recording stopped cleanly?",
                path);
  }
  return File(std::move(path), std::move(*fd), static_cast<std::uint64_t>(status.st_size));
}

File File::compose(std::string path, std::vector<Piece> pieces, Guard guard) {
  const std::uint64_t size = pieces.empty() ? 0 : pieces.back().at + pieces.back().size;
  File file(std::move(path), UniqueFd(), size);
  file.pieces_ = std::move(pieces);
  file.guard_ = std::move(guard);
  return file;
}

Result<void> File::read_from(int fd, std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return fail("{}: cannot read at offset {}: {}", path_, offset, std::strerror(errno));
    if (got == 0) {
      return fail(ErrorKind::kDamaged, "{}: ends at offset {}, {} bytes too early", path_, offset,
                  into.size());
    }
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<void> File::read_pieces(std::uint64_t offset, std::span<std::byte> into) const {
  if (!holds(offset, into.size())) {
    return fail(ErrorKind::kDamaged, "{}: ends at offset {}, {} bytes too early", path_, size_,
                into.size() - (size_ > offset ? size_ - offset : 0));
  }
  std::ranges::fill(into, std::byte{0});
  auto piece = std::ranges::partition_point(
      pieces_, [offset](const Piece& p) { return p.at + p.size <= offset; });
  for (; piece != pieces_.end() && piece->at < offset + into.size(); ++piece) {
    const std::uint64_t from = std::max(offset, piece->at);
    const std::uint64_t to = std::min(offset + into.size(), piece->at + piece->size);
    const auto part = into.subspan(from - offset, to - from);
    if (!piece->file) {
      std::memcpy(part.data(), piece->bytes.data() + (from - piece->at), part.size());
    } else if (auto read = read_from(piece->file->get(), piece->offset + (from - piece->at), part);
               !read) {
      return read;
    }
  }
  struct stat status {};
  if (::fstat(guard_.file->get(), &status) != 0) return fail("{}: {}", path_, std::strerror(errno));
  if (static_cast<std::uint64_t>(status.st_size) != guard_.size)
    return fail("{}: the recording ended while it was read; give the same command again", path_);
  return {};
}

Result<void> File::read(std::uint64_t offset, std::span<std::byte> into) const {
  return is_composed() ? read_pieces(offset, into) : read_from(fd_->get(), offset, into);
}

}  // namespace trapline
