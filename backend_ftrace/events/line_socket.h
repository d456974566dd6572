// Lines over a Unix socket.
#pragma once

#include <sys/types.h>

#include <string>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

class LineSocket {
 public:
  [[nodiscard]] static Result<LineSocket> connect(const std::string& path);
  // `file`: a copy of this descriptor goes with the line; -1: none.
  [[nodiscard]] Result<void> send(std::string text, int file = -1);
  // An Error where none comes within ten seconds.
  [[nodiscard]] Result<std::string> receive();
  [[nodiscard]] const std::string& path() const { return path_; }
  // The process that listens; 0: not known.
  [[nodiscard]] pid_t peer() const;

 private:
  LineSocket(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  UniqueFd fd_;
  std::string buffer_;
  std::size_t line_ = 0;  // where in it the next line begins
};

}  // namespace trapline
