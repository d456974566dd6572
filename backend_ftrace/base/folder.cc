#include "backend_ftrace/base/folder.h"

#include <dirent.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <memory>

#include "backend_ftrace/base/held_files.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/base/uninterrupted.h"

namespace trapline {
namespace {

constexpr int kFolder = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr unsigned kMostDepth = 64;  // of a tree to remove

// Opens a name component by component, for kernels without openat2 and sandboxes that refuse it.
int walk_beneath(int folder, std::string_view name, int flags, mode_t mode) {
  UniqueFd at;
  for (std::size_t slash; (slash = name.find('/')) != std::string_view::npos;
       name.remove_prefix(slash + 1)) {
    const std::string part(name.substr(0, slash));
    at.reset(::openat(at ? at.get() : folder, part.c_str(), kFolder));
    if (!at) return -1;
  }
  return ::openat(at ? at.get() : folder, std::string(name).c_str(), flags | O_NOFOLLOW | O_CLOEXEC,
                  mode);
}

bool leads_up(std::string_view name) {
  return ("/" + std::string(name) + "/").find("/../") != std::string::npos;
}

int open_beneath(int folder, const std::string& name, int flags, mode_t mode = 0) {
  if (leads_up(name) || name.starts_with('/')) return errno = EXDEV, -1;
  open_how how{};
  how.flags = static_cast<__u64>(flags | O_NOFOLLOW | O_CLOEXEC);
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const auto fd = static_cast<int>(uninterrupted(
      [&] { return ::syscall(SYS_openat2, folder, name.c_str(), &how, sizeof how); }));
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM && errno != EAGAIN)) return fd;
  return walk_beneath(folder, name, flags, mode);
}

// Opens a path with a user's rights, so that it leads only where the user could go himself. Magic
// links (/proc) are not followed: they would lead where root stands.
int open_as_user(const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<__u64>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_NO_MAGICLINKS;
  const auto fd = static_cast<int>(uninterrupted(
      [&] { return ::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how); }));
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return fd;
  return ::open(path.c_str(), flags | O_CLOEXEC);
}

std::deque<std::string> parts_of(std::string_view path) {
  std::deque<std::string> parts;
  while (!path.empty()) {
    const auto slash = std::min(path.find('/'), path.size());
    if (slash > 0) parts.emplace_back(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return parts;
}

bool is_closed(const struct stat& folder) {
  return folder.st_uid == 0 && ((folder.st_mode & 022) == 0 || (folder.st_mode & S_ISVTX) != 0);
}

// kRootsOnly: only through root's folders, in which no other user can replace a file of root's.
enum class Way : bool { kAny, kRootsOnly };

// Opens a path with root's rights. A link is followed only if root alone can have made it.
int open_as_root(const std::string& path, int flags, Way way = Way::kAny) {
  const auto start = [](std::string_view from) {
    return UniqueFd(::open(from.starts_with('/') ? "/" : ".", kFolder));
  };
  UniqueFd at = start(path);
  std::deque<std::string> parts = parts_of(path);
  for (unsigned links = 0; at && !parts.empty();) {
    const std::string part = std::move(parts.front());
    parts.pop_front();
    struct stat folder {
    }, link{};
    if (::fstat(at.get(), &folder) != 0) return -1;
    if (way == Way::kRootsOnly && !is_closed(folder)) return errno = EACCES, -1;
    const int as = parts.empty() ? flags | O_NOFOLLOW | O_CLOEXEC : kFolder;
    UniqueFd next(::openat(at.get(), part.c_str(), as));
    if (next || (errno != ENOTDIR && errno != ELOOP)) {
      at = std::move(next);
      continue;
    }
    next.reset(::openat(at.get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next || ::fstat(next.get(), &link) != 0) return -1;
    if (!S_ISLNK(link.st_mode)) return errno = ENOTDIR, -1;
    char target[PATH_MAX];
    const ssize_t size = ::readlinkat(next.get(), "", target, sizeof target);
    if (size < 0) return -1;
    if (!is_closed(folder) || link.st_uid != 0 || ++links > Folder::kMostLinks)
      return errno = ELOOP, -1;
    const std::string_view leads(target, static_cast<std::size_t>(size));
    if (leads.starts_with('/')) at = start("/");
    const auto more = parts_of(leads);
    parts.insert(parts.begin(), more.begin(), more.end());
  }
  return at.release();
}

std::string text_of(int cause) {
  if (cause == ELOOP) return "a link is in the way; name the place that it leads to";
  return std::strerror(cause);
}

// Empties a folder and the folders in it. A name that another process moves meanwhile is not
// searched for.
int empty_folder(int folder, unsigned depth) {
  if (depth > kMostDepth) return ELOOP;
  const int listed = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(listed), &::closedir);
  if (!listing) return errno;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (::unlinkat(folder, entry->d_name, 0) == 0 || errno == ENOENT) continue;
    if (errno != EISDIR && errno != EPERM) return errno;
    const UniqueFd below(::openat(folder, entry->d_name, kFolder));
    if (!below) return errno;
    if (const int cause = empty_folder(below.get(), depth + 1); cause != 0) return cause;
    if (::unlinkat(folder, entry->d_name, AT_REMOVEDIR) != 0) return errno;
  }
  return 0;
}

}  // namespace

// The folder that holds the last part of a name: the Folder itself, or one below it.
struct Folder::Place {
  UniqueFd below;
  int folder = -1;
  std::string last;
};

Result<Folder::Place> Folder::place_of(const std::string& name) const {
  const auto slash = name.rfind('/');
  Place place{{}, fd_.get(), name.substr(slash + 1)};
  if (slash != std::string::npos) {
    place.below.reset(open_beneath(fd_.get(), name.substr(0, slash), kFolder));
    if (!place.below) return failure(name, errno);
    place.folder = place.below.get();
  }
  if (place.last.empty() || place.last == "." || place.last == "..") return failure(name, EINVAL);
  return place;
}

tl::unexpected<Error> Folder::failure(const std::string& name, int cause) const {
  return fail("{}: {}", path_of(name), text_of(cause));
}

Result<Folder> Folder::open(const std::string& path, std::optional<Identity> who) {
  const ActAs as(who);
  errno = as ? ENOENT : EPERM;
  UniqueFd fd(!as || path.empty() ? -1
              : acting_uid() == 0 ? open_as_root(path, kFolder)
                                  : open_as_user(path, O_PATH | O_DIRECTORY));
  if (!fd) return fail("{}: {}", path, text_of(errno));
  return Folder(std::move(fd), path, std::move(who));
}

Result<Folder> Folder::open_to_read(const std::string& path) {
  constexpr int kHow = O_PATH | O_DIRECTORY | O_CLOEXEC;
  UniqueFd fd = held_file(path);
  if (!fd)
    fd = acting_uid() == 0 ? open_named_as_root(path, kHow) : UniqueFd(::open(path.c_str(), kHow));
  if (!fd) return fail("{}: {}", path, std::strerror(errno));
  return Folder(std::move(fd), path, std::nullopt);
}

std::string Folder::path_of(const std::string& name) const {
  if (path_ == ".") return name;
  return path_.ends_with('/') ? path_ + name : path_ + "/" + name;
}

void Folder::follow_rename() {
  struct stat named {};
  const struct stat is = status();
  const ActAs as(who_);
  if (::stat(path_.c_str(), &named) == 0 && named.st_ino == is.st_ino && named.st_dev == is.st_dev)
    return;
  char target[PATH_MAX];
  const std::string link = fmt::format("/proc/self/fd/{}", fd_.get());
  const ssize_t size = ::readlink(link.c_str(), target, sizeof target);
  const std::string_view now(target, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  if (now.starts_with('/') && !now.ends_with(" (deleted)")) path_ = now;
}

Result<std::pair<Folder, std::string>> Folder::open_parent(const std::string& path,
                                                           std::optional<Identity> who) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.ends_with('/')) trimmed.pop_back();
  const auto slash = trimmed.rfind('/');
  std::string last = trimmed.substr(slash + 1);
  std::string above = slash == std::string::npos ? "."
                      : slash == 0               ? "/"
                                                 : trimmed.substr(0, slash);
  if (last.empty() || last == "." || last == "..") above = trimmed, last = ".";
  auto folder = open(above, std::move(who));
  if (!folder) return tl::unexpected(std::move(folder).error());
  return std::pair(std::move(*folder), std::move(last));
}

Result<Folder> Folder::open_or_make(const std::string& path) {
  auto there = open(path);
  if (there) return there;
  auto at = open_parent(path);
  if (!at && path.find('/', 1) != std::string::npos) {
    const std::string above = path.substr(0, path.rfind('/'));
    if (const auto made = open_or_make(above); made) at = open_parent(path);
  }
  if (!at) return there;
  auto made = at->first.make_folder(at->second, 0777);
  if (!made) made = open(path);  // another process made it meanwhile
  return made ? std::move(made) : std::move(there);
}

Result<Folder> Folder::open_folder(const std::string& name) const {
  const ActAs as(who_);
  UniqueFd fd(as ? open_beneath(fd_.get(), name, kFolder) : -1);
  if (!fd) return failure(name, as ? errno : EPERM);
  return Folder(std::move(fd), path_of(name), who_);
}

Result<Folder> Folder::make_folder(const std::string& name, mode_t mode) const {
  const ActAs as(who_);
  const auto place = place_of(name);
  if (!place) return tl::unexpected(place.error());
  if (!as || ::mkdirat(place->folder, place->last.c_str(), mode) != 0) {
    return failure(name, as ? errno : EPERM);
  }
  auto made = open_folder(name);
  // Another process replaced our folder by its own, or the file system gives all files to one user.
  if (made && made->status().st_uid != acting_uid()) {
    return fail("{}: a new folder there belongs to user {}; choose another one", path_of(name),
                made->status().st_uid);
  }
  return made;
}

Result<UniqueFd> Folder::create(const std::string& name, mode_t mode) const {
  const ActAs as(who_);
  UniqueFd fd(as ? open_beneath(fd_.get(), name, O_RDWR | O_CREAT | O_EXCL, mode) : -1);
  if (!fd) return failure(name, as ? errno : EPERM);
  return fd;
}

Result<UniqueFd> Folder::open_to_append(const std::string& name) const {
  if (has(name)) return open_file(name, O_WRONLY | O_APPEND);
  auto made = create(name, 0666);
  if (made && ::fcntl(made->get(), F_SETFL, O_APPEND) != 0) return failure(name, errno);
  return made;
}

Result<UniqueFd> Folder::open_device(const std::string& name) const {
  const ActAs as(who_);
  UniqueFd fd(as ? open_beneath(fd_.get(), name, O_WRONLY | O_NOCTTY) : -1);
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return failure(name, as ? errno : EPERM);
  if (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode)) return fd;
  return fail("{}: neither a device nor a FIFO any more", path_of(name));
}

Result<UniqueFd> Folder::open_file(const std::string& name, int flags) const {
  const ActAs as(who_);
  UniqueFd fd(as ? open_beneath(fd_.get(), name, flags | O_NONBLOCK | O_NOCTTY) : -1);
  const int cause = as ? errno : EPERM;
  if (!fd && (flags & O_ACCMODE) == O_RDONLY) fd = held_file(path_of(name));
  struct stat status {};
  if (!fd) return failure(name, cause);
  if (::fstat(fd.get(), &status) != 0) return failure(name, errno);
  if (!S_ISREG(status.st_mode)) return fail("{}: not a file", path_of(name));
  // As root, refuses a file that another user made, or a second name (hard link) of one elsewhere.
  if ((flags & O_ACCMODE) != O_RDONLY && acting_uid() == 0 &&
      (status.st_nlink > 1 || status.st_uid != 0)) {
    return fail("{}: is not a file that root made", path_of(name));
  }
  return fd;
}

Result<void> Folder::replace(const std::string& name, std::string_view text, mode_t mode,
                             Durable durable) const {
  const ActAs as(who_);
  const auto place = place_of(name);
  if (!place) return tl::unexpected(place.error());
  const std::string fresh = place->last + ".new";
  UniqueFd fd;
  for (unsigned tries = 0; as && !fd && tries < 8; ++tries) {
    if (tries > 0) ::unlinkat(place->folder, fresh.c_str(), 0);  // left by a writer that was killed
    fd.reset(open_beneath(place->folder, fresh, O_RDWR | O_CREAT | O_EXCL, mode));
    if (!fd && errno != EEXIST) break;
  }
  if (!fd) return failure(name + ".new", as ? errno : EPERM);
  auto written = write_all(fd.get(), text, path_of(name));
  if (written && durable == Durable::kYes &&
      uninterrupted([&] { return ::fdatasync(fd.get()); }) != 0) {
    written = failure(name, errno);
  }
  if (written &&
      ::renameat(place->folder, fresh.c_str(), place->folder, place->last.c_str()) != 0) {
    written = failure(name, errno);
  }
  if (!written) ::unlinkat(place->folder, fresh.c_str(), 0);
  return written;
}

Result<std::string> Folder::read(const std::string& name) const {
  const auto fd = open_file(name, O_RDONLY);
  if (!fd) return tl::unexpected(fd.error());
  return read_all(fd->get(), path_of(name));
}

Result<void> Folder::rename(const std::string& from, const std::string& to) const {
  const ActAs as(who_);
  const auto source = place_of(from), target = place_of(to);
  if (!source) return tl::unexpected(source.error());
  if (!target) return tl::unexpected(target.error());
  if (!as ||
      ::renameat(source->folder, source->last.c_str(), target->folder, target->last.c_str()) != 0) {
    return fail("{}: cannot be renamed to {}: {}", path_of(from), path_of(to),
                std::strerror(as ? errno : EPERM));
  }
  return {};
}

Result<void> Folder::exchange(const std::string& one, const std::string& other) const {
  {
    const ActAs as(who_);
    const auto source = place_of(one), target = place_of(other);
    if (!source) return tl::unexpected(source.error());
    if (!target) return tl::unexpected(target.error());
    if (as && ::renameat2(source->folder, source->last.c_str(), target->folder,
                          target->last.c_str(), RENAME_EXCHANGE) == 0) {
      return {};
    }
    if (!as || (errno != EINVAL && errno != ENOSYS)) return failure(other, as ? errno : EPERM);
  }
  const std::string aside = other + ".old";
  if (auto moved = rename(other, aside); !moved) return moved;
  if (auto moved = rename(one, other); !moved) {
    if (auto back = rename(aside, other); !back) return back;
    return moved;
  }
  return rename(aside, one);
}

Result<void> Folder::move_to(const Folder& other, const std::string& name) const {
  const ActAs as(who_);
  const auto source = place_of(name), target = other.place_of(name);
  if (!source) return tl::unexpected(source.error());
  if (!target) return tl::unexpected(target.error());
  if (as && ::renameat2(source->folder, source->last.c_str(), target->folder, target->last.c_str(),
                        RENAME_NOREPLACE) == 0) {
    return {};
  }
  return fail("{}: cannot be moved to {}: {}", path_of(name), other.path(),
              std::strerror(as ? errno : EPERM));
}

Result<void> Folder::remove(const std::string& name) const {
  const ActAs as(who_);
  const auto place = place_of(name);
  if (!place) return tl::unexpected(place.error());
  const auto gone = [&](int flags) {
    return ::unlinkat(place->folder, place->last.c_str(), flags) == 0 || errno == ENOENT;
  };
  if (as && (gone(0) || ((errno == EISDIR || errno == EPERM) && gone(AT_REMOVEDIR)))) return {};
  return failure(name, as ? errno : EPERM);
}

Result<void> Folder::clear() const {
  const ActAs as(who_);
  const int cause = as ? empty_folder(fd_.get(), 0) : EPERM;
  if (cause != 0) return fail("{}: cannot be removed: {}", path_, text_of(cause));
  return {};
}

Result<void> Folder::remove_tree(const std::string& name) const {
  if (has_folder(name)) {
    const auto folder = open_folder(name);
    if (!folder) return tl::unexpected(folder.error());
    if (auto cleared = folder->clear(); !cleared) return cleared;
  }
  return remove(name);
}

Result<UniqueFd> Folder::readable() const {
  const ActAs as(who_);
  const auto open = [this] { return ::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); };
  UniqueFd fd(as ? uninterrupted(open) : -1);
  if (!fd) return fail("{}: {}", path_, std::strerror(as ? errno : EPERM));
  return fd;
}

Result<void> Folder::sync() const {
  const auto fd = readable();
  if (!fd) return tl::unexpected(fd.error());
  if (uninterrupted([&] { return ::fsync(fd->get()); }) != 0) {
    return fail("{}: {}", path_, std::strerror(errno));
  }
  return {};
}

Result<void> Folder::set_mode(mode_t mode) const {
  const auto fd = readable();
  if (!fd) return tl::unexpected(fd.error());
  const ActAs as(who_);
  if (!as || ::fchmod(fd->get(), mode) != 0) return fail("{}: {}", path_, std::strerror(errno));
  return {};
}

Result<void> Folder::give_to(const Identity& who) const {
  if (::fchownat(fd_.get(), "", who.uid, who.gid, AT_EMPTY_PATH) == 0) return {};
  return fail("{}: cannot be given to user {}: {}", path_, who.uid, std::strerror(errno));
}

std::optional<struct stat> Folder::look_at(const std::string& name) const {
  const ActAs as(who_);
  UniqueFd fd(as ? open_beneath(fd_.get(), name, O_PATH) : -1);
  if (!fd) fd = held_file(path_of(name));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return std::nullopt;
  return status;
}

Result<bool> Folder::finds(const std::string& name) const {
  const ActAs as(who_);
  if (as && UniqueFd(open_beneath(fd_.get(), name, O_PATH))) return true;
  const int cause = as ? errno : EPERM;
  if (cause == ENOENT || cause == ENOTDIR) return false;
  if (held_file(path_of(name))) return true;
  return failure(name, cause);
}

bool Folder::has_file(const std::string& name) const {
  const auto status = look_at(name);
  return status && S_ISREG(status->st_mode);
}

bool Folder::has_folder(const std::string& name) const {
  const auto status = look_at(name);
  return status && S_ISDIR(status->st_mode);
}

std::optional<std::string> Folder::followed(const std::string& name) const {
  const ActAs as(who_);
  const auto place = place_of(name);
  struct stat link {};
  char target[PATH_MAX];
  if (!as || !place) return std::nullopt;
  const UniqueFd fd(open_beneath(place->folder, place->last, O_PATH));
  if (!fd || ::fstat(fd.get(), &link) != 0 || !S_ISLNK(link.st_mode)) return std::nullopt;
  const bool is_roots = link.st_uid == 0 && !place->below && is_closed(status());
  const ssize_t size = ::readlinkat(fd.get(), "", target, sizeof target);
  if (size <= 0 || (acting_uid() == 0 && !is_roots)) return std::nullopt;
  const std::string leads(target, static_cast<std::size_t>(size));
  return leads.starts_with('/') ? leads : path_of(leads);
}

Result<std::vector<std::string>> Folder::names() const {
  auto fd = readable();
  if (!fd) return tl::unexpected(std::move(fd).error());
  auto names = names_of(std::move(*fd));
  if (!names) return fail("{}: {}", path_, std::strerror(errno));
  return std::move(*names);
}

struct stat Folder::status() const {
  struct stat status {};
  (void)::fstat(fd_.get(), &status);
  return status;
}

bool Folder::holds_descriptors() const { return is_of_proc(fd_.get()); }

Result<Folder> Folder::again() const {
  UniqueFd fd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 3));
  if (!fd) return fail("{}: {}", path_, std::strerror(errno));
  return Folder(std::move(fd), path_, who_);
}

std::optional<std::vector<std::string>> names_of(UniqueFd folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(folder.get()), &::closedir);
  if (!listing) return std::nullopt;
  (void)folder.release();  // closed together with the listing
  ::rewinddir(listing.get());
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

bool is_of_proc(int fd) {
  struct statfs system {};
  return ::fstatfs(fd, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

UniqueFd open_named_as_root(const std::string& path, int flags) {
  return UniqueFd(open_as_root(path, flags));
}

Result<UniqueFd> open_named_file(const std::string& path, const std::optional<Identity>& who) {
  constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
  UniqueFd fd;
  {
    const ActAs as(who);
    if (as) fd.reset(acting_uid() == 0 ? open_as_root(path, kFlags) : open_as_user(path, kFlags));
  }
  if (!fd && who && errno == EACCES) fd.reset(open_as_root(path, kFlags, Way::kRootsOnly));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return fail("{}: {}", path, text_of(errno));
  if (!S_ISREG(status.st_mode)) return fail("{}: not a file", path);
  return fd;
}

}  // namespace trapline
