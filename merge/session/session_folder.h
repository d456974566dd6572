// The files of a session and their owner. All code that writes a session uses the Folder
// (backend_ftrace/base/folder.h) from here, with names below it and never a path: other processes
// of the session's owner may write there, and must not redirect root.
//
// A session belongs to the user who called sudo, else to this process's own; its folder has the
// mode 0700 (it holds kernel addresses and texts of the guest). The session belongs to that user
// from its first byte on: no owner is changed afterwards, and what a killed recorder leaves belongs
// to the user too.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "backend_ftrace/base/folder.h"

namespace trapline {

// Returns the user who called sudo (SUDO_UID, SUDO_GID), if this process is root and can act as
// that user.
[[nodiscard]] std::optional<Identity> invoking_user();
// Returns "root", "user alice", "user 4242".
[[nodiscard]] std::string user_text(uid_t uid);

// Returns the bytes on disk of what is there, with everything in it; what cannot be examined, or
// lies deeper than 8 folders, does not count. `depth` is that of the folder.
[[nodiscard]] std::uint64_t size_on_disk(const Folder& folder, const std::string& name,
                                         unsigned depth = 0);

// Opens the folder, or makes it, for the session's owner only. Errors (kUsage): it belongs to
// somebody else, or is a link.
[[nodiscard]] Result<Folder> open_own_folder(const std::string& path);

// The earlier session with the name of a new one. It stays in place until the new one is complete.
//
//   recording   NAME.new: the new one   NAME: the earlier one   NAME.old: the one before it
//   complete                            NAME: the new one       NAME.old: the earlier one
//
// A killed recorder leaves NAME.new; the next recorder first puts that into place.
class EarlierSession {
 public:
  EarlierSession() = default;
  EarlierSession(Folder parent, std::string name, std::optional<Identity> owner)
      : parent_(std::move(parent)), name_(std::move(name)), owner_(std::move(owner)) {}

  // Returns a sentence about what happens to the earlier session; empty if there is none.
  [[nodiscard]] std::string text() const;
  // Removes NAME.old at once if the disk has less free room than NAME.old takes, since the new
  // session may become as large. Returns what was done, for the user.
  [[nodiscard]] std::string make_room();
  // Locks the new session until it is in place, because its writer's lock is removed with raw/
  // before that. The Error: another recorder is just putting that session into place.
  [[nodiscard]] Result<void> hold(const Folder& session);
  // Puts the complete new session into place; does nothing if it was made there. After an Error
  // each session is still under one of the three names.
  [[nodiscard]] Result<void> make_way(Folder& session);

 private:
  [[nodiscard]] Result<void> remove_old();

  std::optional<Folder> parent_;
  std::string name_;
  std::optional<Identity> owner_;
  UniqueFd held_;
};

// A new session's folder with its raw/, and the lock that its writer holds as long as it lives.
struct NewSession {
  Folder folder;
  UniqueFd lock;
  EarlierSession earlier;
};
// Makes a session's folder at the path if nothing or an empty folder is there, or at PATH.new if an
// earlier session is there. A folder that contains anything else is an Error.
[[nodiscard]] Result<NewSession> make_session(const std::string& path);
// Makes a session's folder as make_session(path) does, but below `parent`, which belongs to the
// session's owner: at `name`, or at NAME.new if an earlier session is there.
[[nodiscard]] Result<NewSession> make_session(const Folder& parent, const std::string& name);

// Opens the folder of an existing session for writing. Root acts as the owner of the folder.
[[nodiscard]] Result<Folder> open_session_folder(const std::string& path);

// Removes the folder with everything in it.
[[nodiscard]] Result<void> remove_session_folder(Folder session);

// Returns the lock of an existing session; an Error if its writer holds it.
[[nodiscard]] Result<UniqueFd> lock_session(const Folder& session);

}  // namespace trapline
