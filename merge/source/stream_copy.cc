#include "merge/source/stream_copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "backend_ftrace/base/held_files.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/source/encoded_copy.h"

namespace trapline {

const char* temporary_folder() {
  const char* named = std::getenv("TMPDIR");
  return named != nullptr && *named != '\0' ? named : "/var/tmp";
}

UniqueFd make_temporary_file() {
  return UniqueFd(::open(temporary_folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
}

namespace {

constexpr std::size_t kAtOnce = 256u << 10;
constexpr const char* kPipeInto = "pipe a recording into it: perf script | trapline report -";

std::string path_of(const UniqueFd& fd) { return fmt::format("/proc/self/fd/{}", fd.get()); }

// Opens a stream. O_NONBLOCK keeps open() from waiting for a FIFO's writer; it is then cleared, so
// that reads wait for the writers that exist.
Result<UniqueFd> open_stream(const std::string& path) {
  if (path == kStandardInput) {
    if (::isatty(STDIN_FILENO) == 1)
      return fail(ErrorKind::kUsage, "-: the standard input is a terminal; {}", kPipeInto);
    return UniqueFd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
  }
  UniqueFd fd = open_to_read(path, O_NONBLOCK);
  if (!fd) return fail("{}: cannot open: {}", path, std::strerror(errno));
  (void)::fcntl(fd.get(), F_SETFL, 0);
  return fd;
}

Result<void> check_ends(const std::string& path, const UniqueFd& stream) {
  struct statfs system {};
  const std::string name = std::filesystem::path(path).filename();
  const bool is_of_tracefs =
      ::fstatfs(stream.get(), &system) == 0 && system.f_type == TRACEFS_MAGIC;
  if (!is_of_tracefs || !name.starts_with("trace_pipe")) return {};
  return fail(ErrorKind::kUsage,
              "{}: has no end, and what is read from it is gone for others; read the file trace "
              "beside it, or take all of it: trapline record --from-instance NAME",
              path);
}

// Copies the whole stream. Returns an invalid descriptor if it is empty.
Result<UniqueFd> copy_of(const std::string& path, const UniqueFd& stream) {
  UniqueFd copy;
  std::vector<char> block(kAtOnce);
  for (;;) {
    const ssize_t got = ::read(stream.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail("{}: cannot be read: {}", path, std::strerror(errno));
    if (got == 0) return copy;
    if (!copy) copy = make_temporary_file();
    const std::string what = fmt::format(
        "{}: cannot be copied to a temporary file in {} (TMPDIR), from which it is read", path,
        temporary_folder());
    if (!copy) return fail("{}: {}", what, std::strerror(errno));
    auto wrote = write_all(copy.get(), {block.data(), static_cast<std::size_t>(got)}, what);
    if (!wrote) return tl::unexpected(std::move(wrote).error());
  }
}

}  // namespace

Result<std::string> readable_path(const std::string& path) {
  // Keyed by device and inode, since a name may later be that of another file.
  static std::map<std::pair<dev_t, ino_t>, UniqueFd> copies;
  const bool standard = path == kStandardInput;
  struct stat status {};
  const auto named = standard ? std::nullopt : status_of(path);
  if (named) status = *named;
  const bool known = named || (standard && ::fstat(STDIN_FILENO, &status) == 0);
  if (!known && standard)
    return fail(ErrorKind::kUsage, "-: the standard input is closed; {}", kPipeInto);
  const bool is_file = S_ISREG(status.st_mode), has_size = status.st_size != 0;
  // If the file cannot be examined or cannot be a recording, the caller fails to open it.
  if (!known || (!standard && !S_ISFIFO(status.st_mode) && !is_file)) return path;
  UniqueFd& copy = copies[{status.st_dev, status.st_ino}];
  if (copy) return path_of(copy);
  if (is_file && has_size) {
    const UniqueFd file(standard ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                 : open_to_read(path, O_NONBLOCK).release());
    if (auto decoded = assign(copy, decoded_copy(path, file.get())); !decoded)
      return tl::unexpected(std::move(decoded).error());
    if (copy) return path_of(copy);
    return standard ? fmt::format("/proc/self/fd/{}", STDIN_FILENO) : path;
  }
  auto stream = open_stream(path);
  if (!stream) return tl::unexpected(std::move(stream).error());
  if (auto ends = check_ends(path, *stream); !ends) return tl::unexpected(std::move(ends).error());
  auto made = copy_of(path, *stream);
  if (!made) return tl::unexpected(std::move(made).error());
  if (!*made && is_file && !standard) return path;  // an empty file: the caller gives the Error
  if (!*made) return fail(ErrorKind::kDamaged, "{}: nothing came through it", path);
  copy = std::move(*made);
  auto decoded = decoded_copy(path, copy.get());
  if (!decoded) return tl::unexpected(std::move(decoded).error());
  if (*decoded) copy = std::move(*decoded);
  return path_of(copy);
}

}  // namespace trapline
