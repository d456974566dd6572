#pragma once

#include <sys/types.h>

#include <string>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

class LineSocket {
 public:
  [[nodiscard]] static Result<LineSocket> connect(const std::string& path);
  // Sends a line. `file`: sends a copy of this descriptor with it; -1: none.
  [[nodiscard]] Result<void> send(std::string text, int file = -1);
  // Waits for a line; an Error if none comes within ten seconds.
  [[nodiscard]] Result<std::string> receive();
  [[nodiscard]] const std::string& path() const { return path_; }
  // Returns the listening process; 0: not known.
  [[nodiscard]] pid_t peer() const;

 private:
  LineSocket(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  UniqueFd fd_;
  std::string buffer_;
  std::size_t line_ = 0;  // offset of the next line in buffer_
};

}  // namespace trapline
