// Reads a recording by position: a file, or the copy of a stream (stream_copy.h). The size is read
// once, when the file is opened; if the file shrinks later, a short read is an error. Copies of a
// File share its descriptor.
//
// A recording that its recorder has not finished is in several files, which compose() presents as
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

// Limit for a line of a text file, in bytes; no recording has longer lines.
inline constexpr std::size_t kLongestLine = 64u << 10;

class File {
 public:
  // Opens a file. Errors name it: missing, not readable, not a regular file, empty.
  [[nodiscard]] static Result<File> open(std::string path);

  // A part of a composed file: `size` bytes at the composed file's offset `at`. The bytes are in
  // `bytes` or come from `file`.
  struct Piece {
    std::uint64_t at = 0;
    std::uint64_t size = 0;
    std::shared_ptr<const UniqueFd> file;  // null: the part is `bytes`
    std::uint64_t offset = 0;              // offset in `file`
    std::string bytes;
  };
  // Detects that the pieces of a composed file were moved while they were read. Moving them changes
  // the size of `file`, so read() fails if that size is not `size` any more.
  struct Guard {
    std::shared_ptr<const UniqueFd> file;
    std::uint64_t size = 0;
  };
  // Makes one file of `pieces`, which are in order and do not overlap; gaps between them read as
  // zeros.
  [[nodiscard]] static File compose(std::string path, std::vector<Piece> pieces, Guard guard);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Returns whether compose() made the file of pieces.
  [[nodiscard]] bool is_composed() const { return !pieces_.empty(); }
  // Returns the descriptor of a file that is not composed.
  [[nodiscard]] const std::shared_ptr<const UniqueFd>& descriptor() const { return fd_; }

  // Fills all of `into` with the bytes from `offset` on; kDamaged if the file ends before that.
  [[nodiscard]] Result<void> read(std::uint64_t offset, std::span<std::byte> into) const;
  [[nodiscard]] bool holds(std::uint64_t offset, std::uint64_t size) const {
    return offset <= size_ && size <= size_ - offset;
  }

 private:
  File(std::string path, UniqueFd fd, std::uint64_t size)
      : path_(std::move(path)), fd_(std::make_shared<const UniqueFd>(std::move(fd))), size_(size) {}
  [[nodiscard]] Result<void> read_from(int fd, std::uint64_t offset,
                                       std::span<std::byte> into) const;
  [[nodiscard]] Result<void> read_pieces(std::uint64_t offset, std::span<std::byte> into) const;

  std::string path_;
  std::shared_ptr<const UniqueFd> fd_;
  std::uint64_t size_;
  std::vector<Piece> pieces_;
  Guard guard_;
};

}  // namespace trapline
