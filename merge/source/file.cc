#include "merge/source/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trapline {

Result<File> File::open(std::string path) {
  // Without O_NONBLOCK opening a FIFO waits for a writer.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail("{}: cannot open: {}", path, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return fail("{}: {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) {
    return fail("{}: not a regular file; name a trace.dat or a session directory", path);
  }
  if (status.st_size == 0) {
    return fail(ErrorKind::kDamaged, "{}: the file is empty; was the recording stopped cleanly?",
                path);
  }
  return File(std::move(path), std::move(fd), static_cast<std::uint64_t>(status.st_size));
}

Result<void> File::read(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail("{}: reading at {}: {}", path_, offset, std::strerror(errno));
    if (got == 0) {
      return fail(ErrorKind::kDamaged, "{}: ends at {} where {} more bytes should be", path_,
                  offset, into.size());
    }
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

}  // namespace trapline
