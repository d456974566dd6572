// Landlock limits which files this process, and the programs that it starts, can reach.
#pragma once

#include <cstdint>
#include <string>

#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

// A kernel without Landlock (before Linux 5.13, or not enabled) restricts nothing.
//
// Guarantees after enforce(): files are written, made and removed only beneath the paths given to
// allow_writing(), programs are executed only beneath those given to allow_executing(), and no TCP
// port is reached. With Reading::kNamed, files are read only beneath these paths and those given to
// allow_reading(). Open descriptors keep working.
class Landlock {
 public:
  enum class Reading : bool { kAnywhere, kNamed };
  explicit Landlock(Reading reading);
  // Allows nothing if the path cannot be opened.
  void allow_reading(const std::string& path);
  void allow_executing(const std::string& path);  // allows reading too
  void allow_writing(const std::string& path);    // allows reading too
  // Allows reading and, with `to_write`, writing the file or folder behind a descriptor.
  void allow_descriptor(int fd, bool to_write);
  // Puts the limits in force. Call this after give_up_root().
  void enforce();

 private:
  void allow(int fd, std::uint64_t access);
  void allow(const std::string& path, std::uint64_t access);

  std::uint64_t handled_ = 0, reading_ = 0;
  UniqueFd rules_;
};

}  // namespace trapline
