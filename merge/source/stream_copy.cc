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

// Opens a file or a stream. O_NONBLOCK keeps open() from waiting for a FIFO's writer.
Result<UniqueFd> open_once(const std::string& path) {
  UniqueFd fd = path == kStandardInput ? UniqueFd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0))
                                       : open_to_read(path, O_NONBLOCK);
  if (!fd) return fail("{}: cannot open: {}", path, std::strerror(errno));
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

Result<UniqueFd> open_readable(const std::string& path) {
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
  UniqueFd& copy = copies[{status.st_dev, status.st_ino}];
  const auto copied = [&copy] { return UniqueFd(::fcntl(copy.get(), F_DUPFD_CLOEXEC, 0)); };
  if (copy) return copied();
  auto file = open_once(path);
  // The caller refuses what cannot be a recording.
  if (!file || (!standard && !S_ISFIFO(status.st_mode) && !is_file)) return file;
  if (is_file && has_size) {
    if (auto decoded = assign(copy, decoded_copy(path, file->get())); !decoded)
      return tl::unexpected(std::move(decoded).error());
    return copy ? copied() : std::move(*file);
  }
  if (standard && ::isatty(STDIN_FILENO) == 1)
    return fail(ErrorKind::kUsage, "-: the standard input is a terminal; {}", kPipeInto);
  if (auto ends = check_ends(path, *file); !ends) return tl::unexpected(std::move(ends).error());
  // Clears O_NONBLOCK, so that reading a FIFO waits for its writers.
  if (!standard) (void)::fcntl(file->get(), F_SETFL, 0);
  auto made = copy_of(path, *file);
  if (!made) return made;
  if (!*made && is_file && !standard) return file;  // an empty file: the caller gives the Error
  if (!*made) return fail(ErrorKind::kDamaged, "{}: nothing came through it", path);
  copy = std::move(*made);
  auto decoded = decoded_copy(path, copy.get());
  if (!decoded) return decoded;
  if (*decoded) copy = std::move(*decoded);
  return copied();
}

}  // namespace trapline
