// Landlock: what of the file system this process, and what it starts, may still reach.
#pragma once

#include <cstdint>
#include <string>

#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

// A kernel without Landlock (before Linux 5.13, or not enabled) restricts nothing.
//
// Guarantees, once enforce() is called: files are written, made and removed beneath what
// allow_writing() named, programs executed beneath allow_executing(), no TCP port is reached; and,
// with Reading::kNamed, files are read beneath these and allow_reading(). Open descriptors stay.
class Landlock {
 public:
  enum class Reading : bool { kAnywhere, kNamed };
  explicit Landlock(Reading reading);
  // A path that cannot be opened allows nothing.
  void allow_reading(const std::string& path);
  void allow_executing(const std::string& path);  // and reading
  void allow_writing(const std::string& path);    // and reading
  // The file or folder behind a descriptor, to read and, with `to_write`, to write.
  void allow_descriptor(int fd, bool to_write);
  // After give_up_root().
  void enforce();

 private:
  void allow(int fd, std::uint64_t access);
  void allow(const std::string& path, std::uint64_t access);

  std::uint64_t handled_ = 0, reading_ = 0;
  UniqueFd rules_;
};

}  // namespace trapline
