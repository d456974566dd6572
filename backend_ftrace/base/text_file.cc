#include "backend_ftrace/base/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/uninterrupted.h"

namespace trapline {

Result<std::string> read_text(const std::string& path, std::size_t most, TextFrom from) {
  // Without O_NONBLOCK opening a FIFO waits for a writer; a terminal must not become ours.
  const int wait = from == TextFrom::kFile ? O_NONBLOCK : 0;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | wait));
  if (!fd) return fail("{}: {}", path, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return fail("{}: {}", path, std::strerror(errno));
  if (from == TextFrom::kFile && !S_ISREG(status.st_mode))
    return fail("{}: not a regular file", path);
  return read_all(fd.get(), path, most);
}

Result<std::string> read_all(int fd, const std::string& path, std::size_t most) {
  std::string text;
  for (;;) {
    // Files of /proc and tracefs do not tell their size.
    const std::size_t before = text.size();
    text.resize(before + std::clamp<std::size_t>(before, 4096, 1u << 20));
    const ssize_t size = ::read(fd, text.data() + before, text.size() - before);
    text.resize(before + (size > 0 ? static_cast<std::size_t>(size) : 0));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return fail("{}: {}", path, std::strerror(errno));
    if (size == 0) return text;
    if (text.size() > most) {
      return fail(ErrorKind::kDamaged, "{}: longer than {} KiB; it is not what its name says", path,
                  most >> 10);
    }
  }
}

Result<void> write_text(const std::string& path, std::string_view text, bool append) {
  const auto open = [&] {
    return ::open(path.c_str(), O_WRONLY | O_CLOEXEC | (append ? O_APPEND : O_TRUNC));
  };
  const UniqueFd fd(uninterrupted(open));
  if (!fd) return fail("{}: {}", path, std::strerror(errno));
  const auto write = [&] { return ::write(fd.get(), text.data(), text.size()); };
  if (uninterrupted(write) != static_cast<ssize_t>(text.size())) {
    return fail("{}: '{}' is refused: {}", path, text, std::strerror(errno));
  }
  return {};
}

Result<void> write_all(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(fd, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return fail("{}: {}", path, std::strerror(size < 0 ? errno : ENOSPC));
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return {};
}

Result<void> replace_file(const std::string& path, std::string_view text) {
  const auto at = Folder::open_parent(path);
  if (!at) return tl::unexpected(at.error());
  return at->first.replace(at->second, text, 0644, Durable::kYes);
}

}  // namespace trapline
