// A recording, read by position: a file, or what stream_copy.h keeps of a stream. The size is taken
// once, when it is opened; a file that shrinks afterwards gives a short read, which is an error.
//
// A recording that its recorder has not finished lies in several files: compose() makes one of it.
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

// Of text files; a longer line is not one of ours.
inline constexpr std::size_t kLongestLine = 64u << 10;

class File {
 public:
  // Errors name the file: missing, not readable, not a regular file, empty.
  [[nodiscard]] static Result<File> open(std::string path);

  // A part of a composed file: `size` bytes at `at`, either `bytes` or those of a file.
  struct Piece {
    std::uint64_t at = 0;
    std::uint64_t size = 0;
    std::shared_ptr<const UniqueFd> file;  // none: `bytes`
    std::uint64_t offset = 0;              // in `file`
    std::string bytes;
  };
  // Whoever moves the pieces elsewhere makes this file longer first: then reading ends with an
  // error, before it could see bytes that are no longer there.
  struct Guard {
    std::shared_ptr<const UniqueFd> file;
    std::uint64_t size = 0;
  };
  // `pieces` in order and apart from each other; what lies between them reads as zeros.
  [[nodiscard]] static File compose(std::string path, std::vector<Piece> pieces, Guard guard);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Whether it is one file, whose descriptor() a worker can read.
  [[nodiscard]] bool is_composed() const { return !pieces_.empty(); }
  [[nodiscard]] int descriptor() const { return fd_.get(); }

  // Fills `into` from `offset`; kDamaged when the file ends before.
  [[nodiscard]] Result<void> read(std::uint64_t offset, std::span<std::byte> into) const;
  [[nodiscard]] bool holds(std::uint64_t offset, std::uint64_t size) const {
    return offset <= size_ && size <= size_ - offset;
  }

 private:
  File(std::string path, UniqueFd fd, std::uint64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}
  [[nodiscard]] Result<void> read_from(int fd, std::uint64_t offset,
                                       std::span<std::byte> into) const;
  [[nodiscard]] Result<void> read_pieces(std::uint64_t offset, std::span<std::byte> into) const;

  std::string path_;
  UniqueFd fd_;
  std::uint64_t size_;
  std::vector<Piece> pieces_;
  Guard guard_;
};

}  // namespace trapline
