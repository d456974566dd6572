// Writes a file completely or not at all: it is written beside its place, without a name if the
// file system supports that, and then renamed. "-" is the standard output. If root runs this, other
// users cannot redirect the output (folder.h).
#pragma once

#include <optional>
#include <span>
#include <streambuf>
#include <string>
#include <string_view>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

class OutputFile {
 public:
  // Makes a file. Follows a link at `path`; for root only if root alone can have made the link,
  // otherwise replaces the link. Errors (kUsage): the file exists and `force` is false; (kRuntime):
  // the folder cannot be written.
  [[nodiscard]] static Result<OutputFile> create(const std::string& path, bool force);
  // Writes to an open file, which errors call `path`. commit() only writes the buffer.
  OutputFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  OutputFile(OutputFile&&) noexcept = default;
  OutputFile& operator=(OutputFile&&) = delete;
  // Removes a file that was not committed.
  ~OutputFile();

  // Keeps the first error (a full disk, a closed pipe) and drops what follows.
  void write(std::string_view bytes) {
    if (buffer_.size() + bytes.size() > kBuffer) flush();
    if (bytes.size() >= kBuffer / 4 && buffer_.empty()) {
      write_out(bytes);
    } else {
      buffer_ += bytes;
    }
  }
  [[nodiscard]] bool failed() const { return !status_; }
  // Writes the buffer and gives the file its name.
  [[nodiscard]] Result<void> commit();

 private:
  static constexpr std::size_t kBuffer = std::size_t{64} << 10;  // uftrace has a file a task
  [[nodiscard]] static Result<OutputFile> create_in(Folder folder, const std::string& name,
                                                    bool force, unsigned links);
  [[nodiscard]] Result<void> give_name();
  void flush();
  void write_out(std::string_view bytes);

  std::string path_;
  // Unset for the standard output, a device, an open file; beside_ is empty after commit().
  std::optional<Folder> folder_;
  std::string name_, beside_;
  bool is_named_ = true;  // false: the file gets the name beside_ in commit()
  UniqueFd fd_;
  std::string buffer_;
  Result<void> status_;
};

// Checks whether a file may be written at the path, before a recording is read for it. Errors
// (kUsage): the path is one of `inputs` or inside one, even with `force`; the file exists, is not
// an open descriptor (/dev/stdout), and `force` is false.
[[nodiscard]] Result<void> check_output(const std::string& path, bool force,
                                        std::span<const std::string> inputs);

// The file as a stream; commit() returns the Error of a failed write.
class OutputBuffer final : public std::streambuf {
 public:
  explicit OutputBuffer(OutputFile& file) : file_(file) {}

 private:
  int_type overflow(int_type c) override {
    const char byte = traits_type::to_char_type(c);
    if (!traits_type::eq_int_type(c, traits_type::eof())) file_.write({&byte, 1});
    return traits_type::not_eof(c);
  }
  std::streamsize xsputn(const char* bytes, std::streamsize size) override {
    file_.write({bytes, static_cast<std::size_t>(size)});
    return size;
  }

  OutputFile& file_;
};

}  // namespace trapline
