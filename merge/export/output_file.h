// A file that is there as a whole or not at all: it is written beside its place and renamed. "-" is
// the standard output.
#pragma once

#include <string>
#include <string_view>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

class OutputFile {
 public:
  // Errors (kUsage): a file of that name exists and `force` is false; (kRuntime): the folder cannot
  // be written.
  [[nodiscard]] static Result<OutputFile> create(const std::string& path, bool force);
  OutputFile(OutputFile&&) noexcept = default;
  OutputFile& operator=(OutputFile&&) = delete;
  // What was not committed is removed.
  ~OutputFile();

  // The first error (a full disk, a closed pipe) is kept, and what follows it is dropped.
  void write(std::string_view bytes) {
    if (buffer_.size() + bytes.size() > kBuffer) flush();
    if (bytes.size() >= kBuffer / 4 && buffer_.empty()) {
      write_out(bytes);
    } else {
      buffer_ += bytes;
    }
  }
  [[nodiscard]] bool failed() const { return !status_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Writes what is buffered, and gives the file its name.
  [[nodiscard]] Result<void> commit();

 private:
  static constexpr std::size_t kBuffer = std::size_t{256} << 10;
  OutputFile(std::string path, std::string beside, UniqueFd fd)
      : path_(std::move(path)), beside_(std::move(beside)), fd_(std::move(fd)) {
    buffer_.reserve(kBuffer);
  }
  void flush();
  void write_out(std::string_view bytes);

  std::string path_, beside_;  // beside_: empty for the standard output, and once committed
  UniqueFd fd_;
  std::string buffer_;
  Result<void> status_;
};

}  // namespace trapline
