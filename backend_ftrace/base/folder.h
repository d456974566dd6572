// A folder by its descriptor: files are made, replaced and removed in it, and nowhere else.
//
// Guarantees, whoever else can write into the folder or into those above it:
// - names are resolved beneath the descriptor and through no symbolic link (openat2 with
//   RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, before Linux 5.6 a walk with O_NOFOLLOW);
// - files are made with O_EXCL, and replaced by a rename of a finished one;
// - a file that is opened is a regular one: a FIFO or a device is refused, without a wait;
// - every operation has the rights of the folder's identity (identity.h), where it has one.
// Names are relative ("session.json", "raw/cpu0"), without "..".
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend_ftrace/base/identity.h"
#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"

namespace trapline {

enum class Durable : bool { kNo, kYes };  // kYes: on the disk before it is renamed

class Folder {
 public:
  static constexpr unsigned kMostLinks = 40;  // on the way to a file; as the kernel

  // A folder that is there. Root follows a link on the way only where none but root can have put
  // it: in a folder of root's, made by root.
  [[nodiscard]] static Result<Folder> open(const std::string& path,
                                           std::optional<Identity> who = std::nullopt);
  // To read what the user named: links on the way are followed as ever, links in it are not.
  [[nodiscard]] static Result<Folder> open_to_read(const std::string& path);
  // The folder that holds the path's last part, and that part; "." for a path that ends in ".."
  [[nodiscard]] static Result<std::pair<Folder, std::string>> open_parent(
      const std::string& path, std::optional<Identity> who = std::nullopt);
  // A folder that is there, or a new one (0777 less the umask), as all missing ones above it.
  [[nodiscard]] static Result<Folder> open_or_make(const std::string& path);

  // Below it; the same identity. kUsage: it is a link.
  [[nodiscard]] Result<Folder> open_folder(const std::string& name) const;
  // A new one, of the identity's user.
  [[nodiscard]] Result<Folder> make_folder(const std::string& name, mode_t mode = 0700) const;

  // A file that is not there yet, for reading and writing.
  [[nodiscard]] Result<UniqueFd> create(const std::string& name, mode_t mode = 0600) const;
  // A file that grows: a new one (0666 less the umask), or one that is there.
  [[nodiscard]] Result<UniqueFd> open_to_append(const std::string& name) const;
  // A regular file that is there.
  [[nodiscard]] Result<UniqueFd> open_file(const std::string& name, int flags) const;
  // A character device or a FIFO, to write; waits for a FIFO's reader.
  [[nodiscard]] Result<UniqueFd> open_device(const std::string& name) const;
  // Replaces the file as a whole: a reader, or a kill, finds the old one or the new one.
  [[nodiscard]] Result<void> replace(const std::string& name, std::string_view text,
                                     mode_t mode = 0600, Durable durable = Durable::kNo) const;
  [[nodiscard]] Result<std::string> read(const std::string& name) const;

  [[nodiscard]] Result<void> rename(const std::string& from, const std::string& to) const;
  // Both are there, and change places; where the file system cannot, there is none for an instant.
  [[nodiscard]] Result<void> exchange(const std::string& one, const std::string& other) const;
  // Into another folder, where nothing of that name may be.
  [[nodiscard]] Result<void> move_to(const Folder& other, const std::string& name) const;
  // A file, or an empty folder; no error where there is none.
  [[nodiscard]] Result<void> remove(const std::string& name) const;
  // With all that is in it.
  [[nodiscard]] Result<void> remove_tree(const std::string& name) const;
  [[nodiscard]] Result<void> clear() const;  // all that is in this one
  // What was made, renamed and removed in it is on the disk.
  [[nodiscard]] Result<void> sync() const;

  // A link is itself, not what it leads to.
  [[nodiscard]] std::optional<struct stat> look_at(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const { return look_at(name).has_value(); }
  [[nodiscard]] bool has_file(const std::string& name) const;
  [[nodiscard]] bool has_folder(const std::string& name) const;
  // Whether there is anything of that name: an error where that cannot be known, as on a failing
  // disk, for whoever would write over or leave out what he does not see.
  [[nodiscard]] Result<bool> finds(const std::string& name) const;
  // Where a link leads that only its own user, or root, can have put there; for a user any link.
  [[nodiscard]] std::optional<std::string> followed(const std::string& name) const;
  [[nodiscard]] Result<std::vector<std::string>> names() const;

  [[nodiscard]] struct stat status() const;
  // /dev/fd, /proc/PID/fd: a link in it is a descriptor, wherever it leads.
  [[nodiscard]] bool holds_descriptors() const;
  [[nodiscard]] int fd() const { return fd_.get(); }
  // As it was opened: for messages, and for readers.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path_of(const std::string& name) const;
  // path() is the folder's path now, if somebody else has renamed it.
  void follow_rename();
  [[nodiscard]] const std::optional<Identity>& identity() const { return who_; }
  // The same folder for somebody else: what is made from now on is his.
  void set_identity(std::optional<Identity> who) { who_ = std::move(who); }
  [[nodiscard]] Result<Folder> again() const;       // a second descriptor
  [[nodiscard]] Result<UniqueFd> readable() const;  // to lock it
  [[nodiscard]] Result<void> set_mode(mode_t mode) const;
  // This very folder, to another user; as root, whatever its identity.
  [[nodiscard]] Result<void> give_to(const Identity& who) const;

 private:
  struct Place;  // the folder that holds a name's last part
  Folder(UniqueFd fd, std::string path, std::optional<Identity> who)
      : fd_(std::move(fd)), path_(std::move(path)), who_(std::move(who)) {}
  [[nodiscard]] Result<Place> place_of(const std::string& name) const;
  [[nodiscard]] tl::unexpected<Error> failure(const std::string& name, int cause) const;

  UniqueFd fd_;
  std::string path_;
  std::optional<Identity> who_;
};

// The names in a folder, from the first on, without dots; nothing, with errno, where it cannot be
// listed.
[[nodiscard]] std::optional<std::vector<std::string>> names_of(UniqueFd folder);
// Whether the file is one of /proc.
[[nodiscard]] bool is_of_proc(int fd);

// Opens what root's command line names, with root's rights; a link is followed only where none but
// root can have put it (ELOOP elsewhere).
[[nodiscard]] UniqueFd open_named_as_root(const std::string& path, int flags);

// A file that the user named, to read: with his rights, or, where they do not suffice, with root's,
// if its folder and all above it are root's alone.
[[nodiscard]] Result<UniqueFd> open_named_file(const std::string& path,
                                               const std::optional<Identity>& who);

}  // namespace trapline
