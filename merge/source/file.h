// A recording on disk, read by position. The size is taken once, when it is opened; a file that
// shrinks afterwards gives a short read, which is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

class File {
 public:
  // Errors name the file: missing, not readable, not a regular file, empty.
  [[nodiscard]] static Result<File> open(std::string path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] int descriptor() const { return fd_.get(); }

  // Fills `into` from `offset`; kDamaged when the file ends before.
  [[nodiscard]] Result<void> read(std::uint64_t offset, std::span<std::byte> into) const;
  [[nodiscard]] bool holds(std::uint64_t offset, std::uint64_t size) const {
    return offset <= size_ && size <= size_ - offset;
  }

 private:
  File(std::string path, UniqueFd fd, std::uint64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  std::string path_;
  UniqueFd fd_;
  std::uint64_t size_;
};

}  // namespace trapline
