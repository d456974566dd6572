#include "backend_ftrace/base/text_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backend_ftrace/base/folder.h"
#include "backend_ftrace/base/held_files.h"
#include "backend_ftrace/base/size.h"
#include "backend_ftrace/base/uninterrupted.h"

namespace trapline {
namespace {

// Gives the new file the mode of the file that it replaces and, if allowed, the group. Another
// user's file is not replaced, unless the folder belongs to that user too: he could replace the
// file himself, so root gives him the new one.
Result<void> take_rights(int fd, const struct stat& from, const Folder& folder,
                         const std::string& path) {
  struct stat fresh {};
  if (::fstat(fd, &fresh) != 0) return fail("{}: {}", path, std::strerror(errno));
  const bool is_others = fresh.st_uid != from.st_uid;
  if (is_others && (folder.status().st_uid != from.st_uid ||
                    ::fchown(fd, from.st_uid, static_cast<gid_t>(-1)) != 0)) {
    return fail("{}: belongs to user {}; choose another name", path, from.st_uid);
  }
  if (fresh.st_gid != from.st_gid) (void)!::fchown(fd, static_cast<uid_t>(-1), from.st_gid);
  if (((fresh.st_mode ^ from.st_mode) & 0777) == 0 || ::fchmod(fd, from.st_mode & 0777) == 0) {
    return {};
  }
  return fail("{}: {}", path, std::strerror(errno));
}

// Writes a temporary file beside the target, then renames it. The temporary name contains the
// process id, so that no other process uses it. It is short, since the target's name may already
// have the greatest allowed length.
Result<void> replace_in(const Folder& folder, const std::string& name,
                        const std::optional<struct stat>& there, std::string_view text) {
  const std::string path = folder.path_of(name);
  const std::string beside = fmt::format(".trapline.{}.new", ::getpid());
  const auto left = folder.look_at(beside);  // left by a killed process that had the same id
  const bool is_own =
      left && (left->st_uid == acting_uid() || left->st_uid == folder.status().st_uid);
  if (is_own && S_ISREG(left->st_mode)) (void)folder.remove(beside);
  const auto fd = folder.create(beside, 0644);
  if (!fd) return tl::unexpected(fd.error());
  auto written = there ? take_rights(fd->get(), *there, folder, path) : Result<void>();
  if (written) written = write_all(fd->get(), text, path);
  if (written && uninterrupted([&] { return ::fdatasync(fd->get()); }) != 0) {
    written = fail("{}: {}", path, std::strerror(errno));
  }
  if (written) written = folder.rename(beside, name);
  if (!written) (void)folder.remove(beside);
  return written;
}

// Explains why root does not follow a link that root made.
std::string_view who_else_writes_in(const Folder& folder) {
  const struct stat status = folder.status();
  if (status.st_uid != 0) return " in a folder that is not root's";
  if ((status.st_mode & 02) != 0) return " in a folder that everybody can write into";
  return (status.st_mode & 020) != 0 ? " in a folder that its group can write into" : "";
}

}  // namespace

Result<std::string> read_text(const std::string& path, std::size_t most, TextFrom from) {
  // Without O_NONBLOCK, opening a FIFO waits for a writer. O_NOCTTY: a terminal must not become the
  // controlling terminal.
  const int wait = from == TextFrom::kFile ? O_NONBLOCK : 0;
  const UniqueFd fd = open_to_read(path, O_NOCTTY | wait);
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
    // Files of /proc and tracefs report no size.
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

// EFBIG also comes from a file system's own largest file size.
std::string why_not_written(int cause) {
  rlimit limit{};
  if (cause != EFBIG || ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::strerror(cause);
  }
  return fmt::format(
      "{}; raise the limit of file sizes, now {}: ulimit -f unlimited, for systemd "
      "LimitFSIZE=infinity",
      std::strerror(cause), size_text(limit.rlim_cur));
}

int write_bytes(int fd, std::string_view bytes, std::optional<std::uint64_t> at) {
  while (!bytes.empty()) {
    const ssize_t size = at ? ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(*at))
                            : ::write(fd, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return size < 0 ? errno : ENOSPC;
    bytes.remove_prefix(static_cast<std::size_t>(size));
    if (at) *at += static_cast<std::uint64_t>(size);
  }
  return 0;
}

Result<void> write_all(int fd, std::string_view bytes, const std::string& path) {
  const int cause = write_bytes(fd, bytes);
  return cause == 0 ? Result<void>() : fail("{}: {}", path, why_not_written(cause));
}

Result<void> replace_file(const std::string& path, std::string_view text) {
  auto at = Folder::open_parent(path);
  for (unsigned links = 0; at; ++links) {
    const auto& [folder, name] = *at;
    const auto there = name == "." ? folder.status() : folder.look_at(name);
    const std::string place = folder.path_of(name);
    if (!there || S_ISREG(there->st_mode)) return replace_in(folder, name, there, text);
    if (!S_ISLNK(there->st_mode) || folder.holds_descriptors()) {
      return fail(ErrorKind::kUsage, "{} is {}; name a file", place,
                  S_ISDIR(there->st_mode) ? "a folder" : "not a file that can be replaced");
    }
    const bool is_others = there->st_uid != 0 && there->st_uid != acting_uid();
    const auto leads =
        is_others || links >= Folder::kMostLinks ? std::nullopt : folder.followed(name);
    if (!leads) {
      return fail("{}: a link is in the way{}; name the place that it leads to", place,
                  acting_uid() == 0 && !is_others ? who_else_writes_in(folder) : "");
    }
    at = Folder::open_parent(*leads);
  }
  return tl::unexpected(at.error());
}

}  // namespace trapline
