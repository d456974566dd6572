// A session's files and their owner. Everything that writes a session does it through the Folder
// (backend_ftrace/base/folder.h) that it got here, by names below it and never by a path: other
// processes of the session's owner may write there, and must not lead root anywhere.
//
// A session belongs to the user who called sudo, else to this process's own; its folder has the
// mode 0700 (it holds kernel addresses and texts of the guest). It is that user's from its first
// byte on: nothing is given away afterwards, and what a killed recorder leaves is his.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "backend_ftrace/base/folder.h"

namespace trapline {

// The user who called sudo (SUDO_UID, SUDO_GID), where this process is root and can act as him.
[[nodiscard]] std::optional<Identity> invoking_user();
// "root", "user alice", "user 4242"
[[nodiscard]] std::string user_text(uid_t uid);

// Opens the folder, or makes it, for the session's owner alone. Errors (kUsage): it is somebody
// else's, or a link.
[[nodiscard]] Result<Folder> open_own_folder(const std::string& path);

// The earlier session of a new one's name, which stays in place until the new one is complete.
//
//   recording   NAME.new: the new one   NAME: the earlier one   NAME.old: the one before it
//   complete                            NAME: the new one       NAME.old: the earlier one
//
// A killed recorder leaves NAME.new; the next one first puts that in place.
class EarlierSession {
 public:
  EarlierSession() = default;
  EarlierSession(Folder parent, std::string name, std::optional<Identity> owner)
      : parent_(std::move(parent)), name_(std::move(name)), owner_(std::move(owner)) {}

  // Returns what happens to it, for the user; empty: there is none.
  [[nodiscard]] std::string text() const;
  // Removes NAME.old at once where the disk has less room than that takes: the new session is as
  // large as it, as far as anybody knows. Returns what was done, for the user.
  [[nodiscard]] std::string make_room();
  // Keeps other recorders from the new session until it is in place: its writer's lock goes with
  // raw/, before that. An Error where another recorder puts it in place.
  [[nodiscard]] Result<void> hold(const Folder& session);
  // Puts the new session, which is complete, in place; does nothing where it was made there. After
  // an Error each session is still under one of the three names.
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
// Makes it at NAME, where that is free or an empty folder, else at NAME.new beside the earlier one.
// A folder that holds anything else is refused.
[[nodiscard]] Result<NewSession> make_session(const std::string& path);
// The same below a folder of its owner's.
[[nodiscard]] Result<NewSession> make_session(const Folder& parent, const std::string& name);

// The folder of a session that is there, to write into it. Root acts as the owner of the folder.
[[nodiscard]] Result<Folder> open_session_folder(const std::string& path);

// Removes it with all that is in it.
[[nodiscard]] Result<void> remove_session_folder(Folder session);

// The lock of a session that is there; an Error when its writer holds it.
[[nodiscard]] Result<UniqueFd> lock_session(const Folder& session);

}  // namespace trapline
