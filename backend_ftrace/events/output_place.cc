#include "backend_ftrace/events/output_place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <utility>

namespace trapline {
namespace {

constexpr int kFolder = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr unsigned kMostLinks = 40;  // the kernel's limit

bool is_roots_alone(const struct stat& folder) {
  return folder.st_uid == 0 && ((folder.st_mode & 022) == 0 || (folder.st_mode & S_ISVTX) != 0);
}

// Reads a link's target and returns its size; -1, with errno, if the name is no link or the link
// may be another user's.
ssize_t read_roots_link(int folder, const char* name, char* target, std::size_t size) {
  struct stat above {
  }, link{};
  const UniqueFd fd(::openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!fd || ::fstat(folder, &above) != 0 || ::fstat(fd.get(), &link) != 0) return -1;
  if (!S_ISLNK(link.st_mode)) return errno = ENOTDIR, -1;
  if (!is_roots_alone(above) || link.st_uid != 0) return errno = ELOOP, -1;
  return ::readlinkat(fd.get(), "", target, size);
}

// Opens the folder `path`, which has room for PATH_MAX bytes and is overwritten.
int walk_as_root(char* path) {
  char target[PATH_MAX];
  UniqueFd at(::open(*path == '/' ? "/" : ".", kFolder));
  unsigned links = 0;
  char* next = path + std::strspn(path, "/");
  while (at && *next != '\0') {
    char* const end = next + std::strcspn(next, "/");
    const char after = std::exchange(*end, '\0');
    UniqueFd below(::openat(at.get(), next, kFolder));
    const bool is_link = !below && (errno == ENOTDIR || errno == ELOOP);
    const ssize_t size = is_link ? read_roots_link(at.get(), next, target, sizeof target) : 0;
    *end = after;
    if (!is_link) {
      at = std::move(below);
      next = end + std::strspn(end, "/");
      continue;
    }
    if (size < 0) return -1;
    const std::size_t length = static_cast<std::size_t>(size), rest = std::strlen(end) + 1;
    if (++links > kMostLinks) return errno = ELOOP, -1;
    if (length + rest > sizeof target) return errno = ENAMETOOLONG, -1;
    std::memcpy(target + length, end, rest);
    std::memcpy(path, target, length + rest);
    if (*path == '/') at.reset(::open("/", kFolder));
    next = path + std::strspn(path, "/");
  }
  return at.release();
}

}  // namespace

bool find_output_place(const char* path, OutputPlace& place) {
  place.name = path;
  if (::geteuid() != 0) return true;
  char above[PATH_MAX] = "";
  if (const char* slash = std::strrchr(path, '/'); slash != nullptr) {
    const auto size = static_cast<std::size_t>(slash - path) + 1;
    if (size >= sizeof above) return errno = ENAMETOOLONG, false;
    std::memcpy(above, path, size);
    above[size] = '\0';
    place.name = slash + 1;
  }
  place.folder.reset(walk_as_root(above));
  return static_cast<bool>(place.folder);
}

int open_output(const char* path, int flags, const char** reason) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  OutputPlace place;
  UniqueFd fd;
  bool is_new = false;
  if (find_output_place(path, place)) {
    fd.reset(::openat(place.at(), place.name, flags | kFlags | O_CREAT | O_EXCL, 0644));
    is_new = static_cast<bool>(fd);
    if (!fd && errno == EEXIST) fd.reset(::openat(place.at(), place.name, flags | kFlags));
  }
  if (!fd) {
    *reason = errno == ELOOP   ? "a symbolic link, which is not followed"
              : errno == ENXIO ? "a pipe that nobody reads, or no device"
                               : std::strerror(errno);
    return -1;
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return *reason = std::strerror(errno), -1;
  // As root, refuses a file that another user made, or a second name (hard link) of one elsewhere.
  if (!is_new && ::geteuid() == 0 && !S_ISCHR(status.st_mode) &&
      (status.st_uid != 0 || status.st_nlink > 1)) {
    return *reason = "not a file that root made", -1;
  }
  return fd.release();
}

}  // namespace trapline
