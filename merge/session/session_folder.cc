#include "merge/session/session_folder.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "backend_ftrace/base/size.h"
#include "backend_ftrace/base/text.h"

namespace trapline {
namespace {

constexpr const char* kElsewhere = "choose another folder with -o";

std::optional<std::uint32_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  const auto number = text == nullptr ? std::nullopt : parse_number(text);
  if (!number || *number >= UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

std::vector<gid_t> groups_of(const char* name, gid_t gid) {
  std::vector<gid_t> groups(64);
  for (;;) {
    int count = static_cast<int>(groups.size());
    const bool fits = ::getgrouplist(name, gid, groups.data(), &count) >= 0;
    groups.resize(static_cast<std::size_t>(std::max(count, 0)));
    if (fits) return groups;
  }
}

// The folder that `path` is in, opened with the rights of the session's owner. If the owner cannot
// enter or write the folder, it is opened with root's rights; open_above() then requires that
// nobody but root can write to it.
struct Above {
  Folder folder;
  std::string name;
  std::optional<Identity> owner;
};
Result<Above> open_above(const std::string& path) {
  auto owner = invoking_user();
  auto his = Folder::open_parent(path, owner);
  if (!owner) {
    if (!his) return tl::unexpected(std::move(his).error());
    return Above{std::move(his->first), std::move(his->second), {}};
  }
  if (his) {
    const ActAs as(owner);
    if (as && ::faccessat(his->first.fd(), ".", W_OK | X_OK, AT_EACCESS) == 0)
      return Above{std::move(his->first), std::move(his->second), std::move(owner)};
  }
  auto roots = Folder::open_parent(path);
  if (!roots) return tl::unexpected(std::move(his ? roots : his).error());
  const struct stat status = roots->first.status();
  if (status.st_uid != 0 || (status.st_mode & 022) != 0) {
    return fail("{}: {} may not write there; {}", roots->first.path(), user_text(owner->uid),
                kElsewhere);
  }
  return Above{std::move(roots->first), std::move(roots->second), std::move(owner)};
}

Result<void> check_owner(const Folder& folder) {
  const uid_t owner = folder.status().st_uid;
  const uid_t own = folder.identity() ? folder.identity()->uid : ::geteuid();
  if (owner == own) return {};
  return fail(ErrorKind::kUsage, "{} belongs to {}, the session would be of {}; {}", folder.path(),
              user_text(owner), user_text(own), kElsewhere);
}

// Opens the existing folder, if there is one.
Result<std::optional<Folder>> open_own(const Folder& parent, const std::string& name,
                                       const std::optional<Identity>& owner) {
  if (name != ".") {
    const auto status = parent.look_at(name);
    if (!status) return std::nullopt;
    const std::string path = parent.path_of(name);
    if (S_ISLNK(status->st_mode))
      return fail(ErrorKind::kUsage, "{} is a link; name the folder that it leads to", path);
    if (!S_ISDIR(status->st_mode))
      return fail(ErrorKind::kUsage, "{} exists but is not a folder; {}", path, kElsewhere);
  }
  auto folder = name == "." ? parent.again() : parent.open_folder(name);
  if (!folder) return tl::unexpected(std::move(folder).error());
  folder->set_identity(owner);
  if (auto checked = check_owner(*folder); !checked) return tl::unexpected(checked.error());
  return std::move(*folder);
}

Result<Folder> make_own(const Above& above, const std::string& name) {
  auto folder = above.folder.make_folder(name, 0700);
  if (!folder) return folder;
  const bool is_his = above.folder.identity().has_value() == above.owner.has_value();
  if (!is_his) {
    if (auto given = folder->give_to(*above.owner); !given)
      return tl::unexpected(std::move(given).error());
    folder->set_identity(above.owner);
  }
  return folder;
}

bool is_session(const Folder& folder) { return folder.has_file("session.json"); }

// Opens the existing session, if there is one; an Error if something else is there.
Result<std::optional<Folder>> find_session(const Folder& parent, const std::string& name,
                                           const std::optional<Identity>& owner) {
  auto found = open_own(parent, name, owner);
  if (!found || !*found || is_session(**found)) return found;
  return fail(ErrorKind::kUsage, "{} exists but is not a Trapline session; {}", (*found)->path(),
              kElsewhere);
}

Result<UniqueFd> lock_folder(const Folder& folder, const Folder& session) {
  auto lock = folder.readable();
  if (!lock) return lock;
  if (::flock(lock->get(), LOCK_EX | LOCK_NB) != 0)
    return fail("{}: trapline record is still writing this session; end it first", session.path());
  return lock;
}

// Returns an Error if the session's writer is alive. Does nothing without a session.
Result<void> check_writer(const std::optional<Folder>& session) {
  if (!session || !session->has_folder("raw")) return {};
  const auto lock = lock_session(*session);
  return lock ? Result<void>() : tl::unexpected(lock.error());
}

// Removes the remains of a recorder that was killed before its session.json existed, or after it
// had removed it: raw/, empty, and the beginning of session.json, or nothing.
void remove_begun(const Above& above, const std::string& name) {
  const auto begun = open_own(above.folder, name, above.owner);
  if (!begun || !*begun) return;
  UniqueFd lock;  // held until raw/ is removed
  if ((*begun)->has_folder("raw") && !assign(lock, lock_session(**begun))) return;
  const auto names = (*begun)->names();
  if (!names) return;
  if (names->empty() && name == above.name) return;  // the new session is made in it
  for (const std::string& one : *names)
    if (one != "raw" && one != "session.json.new") return;
  for (const std::string& one : *names)
    if (!(*begun)->remove(one)) return;
  (void)above.folder.remove(name);
}

// Puts what a killed recorder left in NAME.new into place, or removes it if it contains no
// recording.
Result<void> settle_killed(const Above& above, EarlierSession& earlier) {
  auto killed = find_session(above.folder, above.name + ".new", above.owner);
  if (!killed) return tl::unexpected(std::move(killed).error());
  if (!*killed) return {};
  if (auto dead = check_writer(*killed); !dead) return dead;
  if (auto held = earlier.hold(**killed); !held) return held;
  if ((*killed)->has_file("trace.dat") || (*killed)->has_file("raw/start.json"))
    return earlier.make_way(**killed);
  return remove_session_folder(std::move(**killed));
}

// Makes the folder for a new session; leaves `earlier` unset if there is no earlier session.
Result<Folder> make_session_folder(const Above& above, EarlierSession& earlier) {
  for (const char* suffix : {"", ".new", ".old"}) remove_begun(above, above.name + suffix);
  auto folder = open_own(above.folder, above.name, above.owner);
  if (!folder) return tl::unexpected(std::move(folder).error());
  const auto names = *folder ? (*folder)->names() : std::vector<std::string>();
  if (!names) return tl::unexpected(names.error());
  if (*folder && names->empty()) {
    // Restricts access first, so that nobody else puts anything into it.
    if (auto closed = (*folder)->set_mode(0700); !closed) return tl::unexpected(closed.error());
    const auto still = (*folder)->names();
    if (!still || !still->empty())
      return fail("{}: somebody else writes into it; {}", (*folder)->path(), kElsewhere);
    return std::move(**folder);
  }
  auto parent = above.folder.again();
  if (!parent) return tl::unexpected(std::move(parent).error());
  EarlierSession there(std::move(*parent), above.name, above.owner);
  for (const char* suffix : {"", ".old"}) {
    const auto session = find_session(above.folder, above.name + suffix, above.owner);
    if (!session) return tl::unexpected(session.error());
    if (auto dead = check_writer(*session); !dead) return tl::unexpected(dead.error());
  }
  if (above.name == ".") {
    return fail(ErrorKind::kUsage, "{} holds an earlier session; {}", (*folder)->path(),
                kElsewhere);
  }
  if (auto settled = settle_killed(above, there); !settled)
    return tl::unexpected(std::move(settled).error());
  if (!above.folder.has(above.name)) return make_own(above, above.name);
  earlier = std::move(there);
  return make_own(above, above.name + ".new");
}

Result<NewSession> make_locked(const Above& above) {
  EarlierSession earlier;
  auto folder = make_session_folder(above, earlier);
  if (!folder) return tl::unexpected(std::move(folder).error());
  // An existing raw/ belongs to another recorder, which began in this folder: all of it stays.
  if (const auto raw = folder->make_folder("raw"); !raw) return tl::unexpected(raw.error());
  auto lock = lock_session(*folder);
  const auto held = lock ? earlier.hold(*folder) : tl::unexpected(lock.error());
  if (held) return NewSession{std::move(*folder), std::move(*lock), std::move(earlier)};
  (void)remove_session_folder(std::move(*folder));
  return tl::unexpected(held.error());
}

}  // namespace

std::optional<Identity> invoking_user() {
  if (::geteuid() != 0) return std::nullopt;
  const auto uid = number_in("SUDO_UID"), gid = number_in("SUDO_GID");
  if (!uid || !gid || *uid == 0) return std::nullopt;
  const passwd* entry = ::getpwuid(*uid);
  Identity user{*uid, *gid, {*gid}};
  if (entry != nullptr) user.groups = groups_of(entry->pw_name, *gid);
  if (!ActAs(user)) return std::nullopt;
  return user;
}

std::string user_text(uid_t uid) {
  if (uid == 0) return "root";
  const passwd* entry = ::getpwuid(uid);
  return entry != nullptr ? fmt::format("user {}", entry->pw_name) : fmt::format("user {}", uid);
}

std::uint64_t size_on_disk(const Folder& folder, const std::string& name, unsigned depth) {
  constexpr unsigned kMostDepth = 8;
  const auto status = folder.look_at(name);
  if (!status) return 0;
  std::uint64_t size = static_cast<std::uint64_t>(status->st_blocks) * 512;
  if (!S_ISDIR(status->st_mode) || depth == kMostDepth) return size;
  const auto inside = folder.open_folder(name);
  const auto names = inside ? inside->names() : tl::unexpected(inside.error());
  if (!names) return size;
  for (const std::string& one : *names) size += size_on_disk(*inside, one, depth + 1);
  return size;
}

Result<Folder> open_own_folder(const std::string& path) {
  const auto above = open_above(path);
  if (!above) return tl::unexpected(above.error());
  auto folder = open_own(above->folder, above->name, above->owner);
  if (!folder) return tl::unexpected(std::move(folder).error());
  if (*folder) return std::move(**folder);
  return make_own(*above, above->name);
}

std::string EarlierSession::text() const {
  if (!parent_) return {};
  return fmt::format("this recording is {}.new while it lasts; then the earlier {} becomes {}.old",
                     name_, parent_->path_of(name_), name_);
}

std::string EarlierSession::make_room() {
  struct statvfs disk {};
  if (!parent_ || ::fstatvfs(parent_->fd(), &disk) != 0) return {};
  if (disk.f_blocks == 0) return {};  // a file system without a limit, or one that reports none
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  const std::uint64_t size = size_on_disk(*parent_, name_ + ".old");
  if (free >= size) return {};
  if (auto removed = remove_old(); !removed) return "warning: " + removed.error().message;
  return fmt::format(
      "removed {}.old now and not at the end: {:.1f} MiB, on a disk with only {:.1f} free", name_,
      static_cast<double>(size) / kMib, static_cast<double>(free) / kMib);
}

Result<void> EarlierSession::remove_old() {
  auto old = find_session(*parent_, name_ + ".old", owner_);
  if (!old) return tl::unexpected(std::move(old).error());
  return *old ? remove_session_folder(std::move(**old)) : Result<void>();
}

Result<void> EarlierSession::hold(const Folder& session) {
  return parent_ ? assign(held_, lock_folder(session, session)) : Result<void>();
}

Result<void> EarlierSession::make_way(Folder& session) {
  if (!parent_) return {};
  const std::string made = name_ + ".new";
  const auto there = parent_->look_at(made);
  if (!there || there->st_ino != session.status().st_ino)
    return fail("{} was moved while trapline recorded into it", session.path());
  // settle_killed() can continue after a kill between any two of these steps.
  if (parent_->has(name_)) {
    if (auto removed = remove_old(); !removed) return removed;
    if (auto moved = parent_->rename(name_, name_ + ".old"); !moved) return moved;
  }
  if (auto moved = parent_->rename(made, name_); !moved) return moved;
  (void)parent_->sync();  // best effort: it may be unreadable
  // Opens the session again, under its new path.
  auto moved = open_own(*parent_, name_, owner_);
  if (moved && *moved && (*moved)->status().st_ino == there->st_ino) session = std::move(**moved);
  held_.reset();
  return {};
}

Result<NewSession> make_session(const std::string& path) {
  const auto above = open_above(path);
  if (!above) return tl::unexpected(above.error());
  return make_locked(*above);
}

Result<NewSession> make_session(const Folder& parent, const std::string& name) {
  auto again = parent.again();
  if (!again) return tl::unexpected(std::move(again).error());
  return make_locked({std::move(*again), name, parent.identity()});
}

Result<Folder> open_session_folder(const std::string& path) {
  const auto user = invoking_user();
  auto folder = Folder::open(path, user);
  if (!folder && user) folder = Folder::open(path);
  if (!folder || ::geteuid() != 0) return folder;
  const struct stat status = folder->status();
  if (user && status.st_uid == user->uid) return folder;
  folder->set_identity(std::nullopt);
  if (status.st_uid != 0) folder->set_identity(Identity{status.st_uid, status.st_gid, {}});
  return folder;
}

Result<void> remove_session_folder(Folder session) {
  // Removes session.json last, so that what a killed process leaves is still known as a session.
  const auto remove_all = [&session]() -> Result<void> {
    for (const std::string& name : session.names().value_or(std::vector<std::string>())) {
      if (name == "session.json") continue;
      if (auto removed = session.remove_tree(name); !removed) return removed;
    }
    return session.clear();
  };
  auto cleared = remove_all();
  // With --user the plugin's folder belongs to that user: only root can empty it.
  if (!cleared && session.identity()) {
    session.set_identity(std::nullopt);
    cleared = remove_all();
  }
  if (!cleared) return cleared;
  const auto above = open_above(session.path());
  if (!above) return tl::unexpected(above.error());
  const auto there = above->folder.look_at(above->name);
  if (!there || there->st_ino != session.status().st_ino) return {};
  return above->folder.remove(above->name);
}

Result<UniqueFd> lock_session(const Folder& session) {
  const auto raw = session.open_folder("raw");
  return raw ? lock_folder(*raw, session) : tl::unexpected(raw.error());
}

}  // namespace trapline
