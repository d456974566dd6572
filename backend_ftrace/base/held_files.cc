#include "backend_ftrace/base/held_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <utility>

#include "backend_ftrace/base/descriptors.h"
#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/uninterrupted.h"

namespace trapline {
namespace {

constexpr int kToRead = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr unsigned kDeepest = 4;
constexpr std::size_t kMostHeld = 60'000;

// The held descriptors by absolute path, without dots.
std::map<std::string, UniqueFd>& held_by_path() {
  static std::map<std::string, UniqueFd> held;
  return held;
}

std::string key_of(const std::string& path) {
  std::error_code error;
  std::string key = std::filesystem::absolute(path, error).lexically_normal().string();
  while (key.size() > 1 && key.ends_with('/')) key.pop_back();
  return key;
}

// Returns whether a file could be opened for reading now. Does not open a FIFO to find out: closing
// it again would end the FIFO's writer.
bool is_readable(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno != EACCES && errno != EPERM;
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return ::faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0;
  const UniqueFd fd(::open(path.c_str(), kToRead));
  return fd ? !is_of_proc(fd.get()) : errno != EACCES && errno != EPERM;
}

void hold(std::string key, UniqueFd fd, unsigned depth) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || held_by_path().size() >= kMostHeld) return;
  if (S_ISDIR(status.st_mode) && depth < kDeepest) {
    for (const std::string& name :
         names_of(UniqueFd(::dup(fd.get()))).value_or(std::vector<std::string>())) {
      UniqueFd below(::openat(fd.get(), name.c_str(), kToRead | O_NOFOLLOW));
      if (below) hold(key + '/' + name, std::move(below), depth + 1);
    }
  }
  held_by_path()[std::move(key)] = std::move(fd);
}

}  // namespace

void hold_file(const std::string& path, const std::optional<Identity>& who) {
  bool is_open_later = false;
  with_later_rights(who, [&] {
    is_open_later = is_readable(path);
    std::error_code error;
    if (!is_open_later || !std::filesystem::is_directory(path, error)) return;
    // A folder counts as readable if each of its files is.
    std::filesystem::recursive_directory_iterator at(path, error);
    for (; !error && at != end(at); at.increment(error))
      if (!at->is_symlink(error)) is_open_later &= is_readable(at->path());
    if (error) is_open_later = false;
  });
  if (is_open_later) return;
  UniqueFd fd = open_named_as_root(path, kToRead);
  if (!fd) return;
  allow_open_files(kMostHeld + 1000);
  hold(key_of(path), std::move(fd), 0);
}

UniqueFd held_file(const std::string& path) {
  const auto& held = held_by_path();
  if (held.empty()) return {};
  const auto found = held.find(key_of(path));
  if (found == held.end()) return {};
  UniqueFd fd(::fcntl(found->second.get(), F_DUPFD_CLOEXEC, 3));
  if (fd) (void)::lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

UniqueFd open_to_read(const std::string& path, int flags) {
  UniqueFd held = held_file(path);
  if (held) return held;
  return UniqueFd(
      uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags); }));
}

std::optional<struct stat> status_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return status;
  const int cause = errno;
  if (const UniqueFd fd = held_file(path); fd && ::fstat(fd.get(), &status) == 0) return status;
  errno = cause;
  return std::nullopt;
}

std::vector<std::string> names_in(const std::string& folder) {
  return names_of(open_to_read(folder, O_DIRECTORY)).value_or(std::vector<std::string>());
}

}  // namespace trapline
