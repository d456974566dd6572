#include "merge/session/session_folder.h"

#include <fmt/ranges.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "backend_ftrace/base/size.h"
#include "backend_ftrace/base/text.h"
#include "merge/session/session_json.h"

namespace trapline {
namespace {

constexpr const char* kElsewhere = "choose another folder with -o";
constexpr std::size_t kMostName = 240;  // NAME.old.4194304.99 is a name, too

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

// The folder that `path` is in, for the session's owner, or, where he may not go or write there,
// for root: then nobody else but root may write there.
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
    if (as && ::faccessat(his->first.fd(), ".", W_OK | X_OK, AT_EACCESS) == 0) {
      return Above{std::move(his->first), std::move(his->second), std::move(owner)};
    }
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

// The folder that is there, if there is one.
Result<std::optional<Folder>> open_own(const Above& above) {
  if (above.name != ".") {
    const auto status = above.folder.look_at(above.name);
    if (!status) return std::nullopt;
    const std::string path = above.folder.path_of(above.name);
    if (S_ISLNK(status->st_mode)) {
      return fail(ErrorKind::kUsage, "{} is a link; name the folder that it leads to", path);
    }
    if (!S_ISDIR(status->st_mode)) {
      return fail(ErrorKind::kUsage, "{} exists but is not a folder; {}", path, kElsewhere);
    }
  }
  auto folder = above.name == "." ? above.folder.again() : above.folder.open_folder(above.name);
  if (!folder) return tl::unexpected(std::move(folder).error());
  folder->set_identity(above.owner);
  if (auto checked = check_owner(*folder); !checked) return tl::unexpected(checked.error());
  return std::move(*folder);
}

Result<Folder> make_own(const Above& above) {
  auto folder = above.folder.make_folder(above.name, 0700);
  if (!folder) return folder;
  const bool is_his = above.folder.identity().has_value() == above.owner.has_value();
  if (!is_his) {
    if (auto given = folder->give_to(*above.owner); !given) {
      return tl::unexpected(std::move(given).error());
    }
    folder->set_identity(above.owner);
  }
  return folder;
}

bool is_session(const Folder& folder) { return folder.has_file("session.json"); }

// A session of the same owner's beside this one.
std::optional<Folder> session_beside(const Above& above, const std::string& name) {
  auto again = above.folder.again();
  if (!again) return std::nullopt;
  auto found = open_own({std::move(*again), name, above.owner});
  if (!found || !*found || !is_session(**found)) return std::nullopt;
  return std::move(**found);
}

// NAME.old.PID, then NAME.old.PID.2: in a container every recorder has the same number.
std::string aside_name(const std::string& name, std::int64_t pid, unsigned number) {
  const std::string first = fmt::format("{}.old.{}", name, pid);
  return number == 1 ? first : fmt::format("{}.{}", first, number);
}

std::string free_aside_name(const Above& above) {
  for (unsigned number = 1;; ++number) {
    std::string name = aside_name(above.name, ::getpid(), number);
    if (!above.folder.has(name)) return name;
  }
}

// The sessions that the recorder of this one, killed before its end, was to remove. Their names
// alone would not tell them from copies that the user made. Whether it lives its lock tells: its
// number may be another process's by now.
void add_left_by_writer(const Above& above, const Folder& session, std::vector<std::string>& left) {
  const auto text = session.read("session.json");
  const auto facts = text ? parse_session_json(*text) : std::nullopt;
  if (!facts || facts->closed || facts->recorder_pid <= 0) return;
  if (session.has_folder("raw") && !lock_session(session)) return;
  for (unsigned number = 1;; ++number) {
    std::string name = aside_name(above.name, facts->recorder_pid, number);
    if (std::find(left.begin(), left.end(), name) != left.end()) continue;
    if (!session_beside(above, name)) return;
    left.push_back(std::move(name));
  }
}

// With what the recorders of those were to remove: several may have been killed one after another.
std::vector<std::string> left_by_writers(const Above& above, const Folder& earlier,
                                         const std::optional<Folder>& kept) {
  std::vector<std::string> left;
  add_left_by_writer(above, earlier, left);
  if (kept) add_left_by_writer(above, *kept, left);
  for (std::size_t i = 0; i < left.size(); ++i) {
    const auto session = session_beside(above, left[i]);
    if (session) add_left_by_writer(above, *session, left);
  }
  return left;
}

// Makes room for NAME, an earlier session: it becomes NAME.old.
Result<EarlierSessions> move_aside(const Above& above, const Folder& earlier) {
  if (!is_session(earlier)) {
    return fail(ErrorKind::kUsage, "{} exists but is not a Trapline session; {}", earlier.path(),
                kElsewhere);
  }
  if (earlier.has_folder("raw")) {
    if (auto lock = lock_session(earlier); !lock) return tl::unexpected(lock.error());
  }
  auto again = above.folder.again();
  if (!again) return tl::unexpected(std::move(again).error());
  Above old{std::move(*again), above.name + ".old", above.owner};
  auto kept = open_own(old);
  if (!kept) return tl::unexpected(std::move(kept).error());
  if (*kept && !is_session(**kept)) {
    return fail(ErrorKind::kUsage,
                "{} exists but is not a Trapline session, so the earlier {} cannot be kept under "
                "that name; {}",
                (*kept)->path(), earlier.path(), kElsewhere);
  }
  std::vector<std::string> left = left_by_writers(above, earlier, *kept);
  std::string older;
  if (*kept) {
    older = free_aside_name(above);
    if (auto moved = above.folder.rename(old.name, older); !moved) {
      return tl::unexpected(std::move(moved).error());
    }
  }
  if (auto moved = above.folder.rename(above.name, old.name); !moved) {
    if (!older.empty()) (void)above.folder.rename(older, old.name);
    return tl::unexpected(std::move(moved).error());
  }
  return EarlierSessions(std::move(old.folder), above.name, std::move(older), std::move(left));
}

Result<Folder> make_session_folder(const Above& above, EarlierSessions& earlier) {
  auto folder = open_own(above);
  if (!folder) return tl::unexpected(std::move(folder).error());
  if (*folder) {
    const auto names = (*folder)->names();
    if (!names) return tl::unexpected(names.error());
    if (!names->empty()) {
      if (auto moved = assign(earlier, move_aside(above, **folder)); !moved)
        return tl::unexpected(std::move(moved).error());
      folder->reset();
    }
  }
  if (!*folder) {
    auto made = make_own(above);
    if (!made) return made;
    folder->emplace(std::move(*made));
  } else {
    // Closed first: from then on nobody else puts anything into it.
    if (auto closed = (*folder)->set_mode(0700); !closed) return tl::unexpected(closed.error());
    const auto names = (*folder)->names();
    if (!names || !names->empty()) {
      return fail("{}: somebody else writes into it; {}", (*folder)->path(), kElsewhere);
    }
  }
  if (auto raw = (*folder)->make_folder("raw"); !raw) return raw;
  return std::move(**folder);
}

// With all that is in it; what cannot be looked at does not count.
std::uint64_t size_on_disk(const Folder& folder, const std::string& name, unsigned depth = 0) {
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

Result<NewSession> make_locked(const Above& above) {
  if (above.name.size() > kMostName) {
    return fail(ErrorKind::kUsage, "{}: its name has {} bytes, of at most {}; {}",
                above.folder.path_of(above.name), above.name.size(), kMostName, kElsewhere);
  }
  EarlierSessions earlier;
  auto folder = make_session_folder(above, earlier);
  auto lock = folder ? lock_session(*folder) : tl::unexpected(folder.error());
  if (lock) return NewSession{std::move(*folder), std::move(*lock), std::move(earlier)};
  if (folder) (void)remove_session_folder(std::move(*folder));
  (void)earlier.put_back();
  return tl::unexpected(std::move(lock).error());
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

Result<Folder> open_own_folder(const std::string& path) {
  const auto above = open_above(path);
  if (!above) return tl::unexpected(above.error());
  auto folder = open_own(*above);
  if (!folder) return tl::unexpected(std::move(folder).error());
  if (*folder) return std::move(**folder);
  return make_own(*above);
}

std::string EarlierSessions::text() const {
  if (!parent_) return {};
  std::string text = fmt::format("the earlier {} is now {}.old{}", parent_->path_of(name_), name_,
                                 older_.empty() ? "" : "; the one before it is removed at the end");
  for (const std::string& left : left_) {
    text += fmt::format("; {}, which a killed recorder left, is removed at the end", left);
  }
  return text;
}

Result<void> EarlierSessions::remove(const std::string& name) {
  auto removed = parent_->remove_tree(name);
  const auto owner = parent_->identity();
  if (removed || !owner) return removed;
  // The folder that --user's plugin wrote is neither root's nor the owner's.
  parent_->set_identity(std::nullopt);
  removed = parent_->remove_tree(name);
  parent_->set_identity(owner);
  return removed;
}

std::string EarlierSessions::make_room() {
  std::vector<std::string> names = left_;
  if (!older_.empty()) names.push_back(older_);
  struct statvfs disk {};
  if (!parent_ || names.empty() || ::fstatvfs(parent_->fd(), &disk) != 0) return {};
  if (disk.f_blocks == 0) return {};  // a file system without a limit, or one that tells none
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  std::uint64_t size = 0;
  for (const std::string& name : names) size += size_on_disk(*parent_, name);
  if (free >= size) return {};
  if (auto removed = remove_older(); !removed) return "warning: " + removed.error().message;
  return fmt::format(
      "removed {} now and not at the end: {:.1f} MiB, on a disk with only {:.1f} free",
      fmt::join(names, ", "), static_cast<double>(size) / kMib, static_cast<double>(free) / kMib);
}

Result<void> EarlierSessions::remove_older() {
  std::vector<std::string> names = std::exchange(left_, {});
  if (!older_.empty()) names.push_back(std::exchange(older_, {}));
  Result<void> all;
  // The last first: of NAME.old.PID and NAME.old.PID.2 a kill leaves the one that is looked for.
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    if (auto removed = remove(*name); !removed) all = std::move(removed);
  }
  return all;
}

Result<void> EarlierSessions::put_back() {
  if (!parent_) return {};
  const Folder parent = std::move(*parent_);
  parent_.reset();
  auto moved = parent.rename(name_ + ".old", name_);
  if (moved && !older_.empty()) moved = parent.rename(older_, name_ + ".old");
  return moved;
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
  auto cleared = session.clear();
  if (!cleared && session.identity()) {  // the folder of --user is neither root's nor the owner's
    session.set_identity(std::nullopt);
    cleared = session.clear();
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
  if (!raw) return tl::unexpected(raw.error());
  auto lock = raw->readable();
  if (!lock) return lock;
  if (::flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
    return fail("{}: trapline record is still writing this session; end it first", session.path());
  }
  return lock;
}

}  // namespace trapline
