// A folder that is held by its descriptor: files are made, replaced and removed in this folder and
// nowhere else.
//
// Guarantees, whoever else can write into the folder or into those above it:
// - names are resolved beneath the descriptor and through no symbolic link (openat2 with
//   RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS, before Linux 5.6 a walk with O_NOFOLLOW);
// - files are made with O_EXCL, and replaced by renaming a finished file over them;
// - only regular files are opened: a FIFO or a device is an error, and opening one does not block;
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

enum class Durable : bool { kNo, kYes };  // kYes: the file is on the disk before it is renamed

class Folder {
 public:
  // Limit of links on the way to a file, the same as the kernel's.
  static constexpr unsigned kMostLinks = 40;

  // Opens an existing folder. As root, follows a link on the way only if root alone can have made
  // it: a link of root's in a folder of root's.
  [[nodiscard]] static Result<Folder> open(const std::string& path,
                                           std::optional<Identity> who = std::nullopt);
  // Opens a folder that the user named, to read from it. Follows links on the way to it, but none
  // below it.
  [[nodiscard]] static Result<Folder> open_to_read(const std::string& path);
  // Returns the folder that holds the path's last part, and that part; "." for a path that ends in
  // "..".
  [[nodiscard]] static Result<std::pair<Folder, std::string>> open_parent(
      const std::string& path, std::optional<Identity> who = std::nullopt);
  // Opens a folder, or makes it (mode 0777 less the umask) with all missing folders above it.
  [[nodiscard]] static Result<Folder> open_or_make(const std::string& path);

  // Opens a folder below this one, with the same identity; an error if the name is a link.
  [[nodiscard]] Result<Folder> open_folder(const std::string& name) const;
  // Makes a folder, owned by the identity's user.
  [[nodiscard]] Result<Folder> make_folder(const std::string& name, mode_t mode = 0700) const;

  // Makes a file for reading and writing; an error if the name exists.
  [[nodiscard]] Result<UniqueFd> create(const std::string& name, mode_t mode = 0600) const;
  // Opens a file for appending; makes it (0666 less the umask) if it does not exist.
  [[nodiscard]] Result<UniqueFd> open_to_append(const std::string& name) const;
  // Opens an existing regular file.
  [[nodiscard]] Result<UniqueFd> open_file(const std::string& name, int flags) const;
  // Opens a character device or a FIFO for writing; waits for a FIFO's reader.
  [[nodiscard]] Result<UniqueFd> open_device(const std::string& name) const;
  // Replaces the whole file at once: a reader, or a process that is killed meanwhile, leaves and
  // finds either the old file or the new one.
  [[nodiscard]] Result<void> replace(const std::string& name, std::string_view text,
                                     mode_t mode = 0600, Durable durable = Durable::kNo) const;
  [[nodiscard]] Result<std::string> read(const std::string& name) const;

  [[nodiscard]] Result<void> rename(const std::string& from, const std::string& to) const;
  // Swaps two existing names. On a file system that cannot do this atomically, one of them is
  // missing for an instant.
  [[nodiscard]] Result<void> exchange(const std::string& one, const std::string& other) const;
  // Moves a name into another folder; an error if it exists there.
  [[nodiscard]] Result<void> move_to(const Folder& other, const std::string& name) const;
  // Removes a file or an empty folder; no error if it does not exist.
  [[nodiscard]] Result<void> remove(const std::string& name) const;
  // Removes a folder and everything in it.
  [[nodiscard]] Result<void> remove_tree(const std::string& name) const;
  [[nodiscard]] Result<void> clear() const;  // removes everything in this folder
  // Returns when everything made, renamed and removed in this folder is on the disk.
  [[nodiscard]] Result<void> sync() const;

  // Returns the status of a name; of a link itself, not of its target.
  [[nodiscard]] std::optional<struct stat> look_at(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const { return look_at(name).has_value(); }
  [[nodiscard]] bool has_file(const std::string& name) const;
  [[nodiscard]] bool has_folder(const std::string& name) const;
  // Returns whether the name exists. An Error when that cannot be known, as on a failing disk, so
  // that no caller overwrites or leaves out a file that it could not see.
  [[nodiscard]] Result<bool> finds(const std::string& name) const;
  // Returns a link's target. As root, returns it only if the link is root's and stands directly in
  // this folder, and no other user can replace it there.
  [[nodiscard]] std::optional<std::string> followed(const std::string& name) const;
  [[nodiscard]] Result<std::vector<std::string>> names() const;

  [[nodiscard]] struct stat status() const;
  // Returns whether this is a folder like /dev/fd or /proc/PID/fd, where a link stands for a
  // descriptor, whatever it points to.
  [[nodiscard]] bool holds_descriptors() const;
  [[nodiscard]] int fd() const { return fd_.get(); }
  // The path as it was opened, or as follow_rename() found it; for messages and readers.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path_of(const std::string& name) const;
  // Sets path() to the folder's current path, in case another process has renamed the folder.
  void follow_rename();
  [[nodiscard]] const std::optional<Identity>& identity() const { return who_; }
  // Makes later operations act, and make files, as this user.
  void set_identity(std::optional<Identity> who) { who_ = std::move(who); }
  [[nodiscard]] Result<Folder> again() const;       // a second descriptor of the same folder
  [[nodiscard]] Result<UniqueFd> readable() const;  // a descriptor that can be locked
  [[nodiscard]] Result<void> set_mode(mode_t mode) const;
  // Changes the owner of this folder, with root's rights whatever the folder's identity is.
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

// Returns all names in a folder except . and .., from the first; nullopt, with errno, when it
// cannot be listed.
[[nodiscard]] std::optional<std::vector<std::string>> names_of(UniqueFd folder);
// Returns whether the file is in /proc.
[[nodiscard]] bool is_of_proc(int fd);

// Opens what root's command line names, with root's rights. Follows a link only if root alone can
// have made it, else fails with ELOOP.
[[nodiscard]] UniqueFd open_named_as_root(const std::string& path, int flags);

// Opens a file that the user named for reading: with the user's rights or, if they do not suffice,
// with root's. The latter only if root alone can write to the file's folder and all folders above.
[[nodiscard]] Result<UniqueFd> open_named_file(const std::string& path,
                                               const std::optional<Identity>& who);

}  // namespace trapline
