#include "backend_ftrace/base/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "backend_ftrace/base/folder.h"

namespace trapline {

Result<std::string> read_text(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail("{}: {}", path, std::strerror(errno));
  return read_all(fd.get(), path);
}

Result<std::string> read_all(int fd, const std::string& path) {
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t size = ::read(fd, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return fail("{}: {}", path, std::strerror(errno));
    if (size == 0) return text;
    text.append(buffer, static_cast<std::size_t>(size));
  }
}

Result<void> write_text(const std::string& path, std::string_view text, bool append) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | (append ? O_APPEND : O_TRUNC)));
  if (!fd) return fail("{}: {}", path, std::strerror(errno));
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
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
  return at->first.replace(at->second, text, 0644);
}

}  // namespace trapline
