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
#include <vector>

#include "backend_ftrace/base/folder.h"

namespace trapline {

// The user who called sudo (SUDO_UID, SUDO_GID), where this process is root and can act as him.
[[nodiscard]] std::optional<Identity> invoking_user();
// "root", "user alice", "user 4242"
[[nodiscard]] std::string user_text(uid_t uid);

// Opens the folder, or makes it, for the session's owner alone. Errors (kUsage): it is somebody
// else's, or a link.
[[nodiscard]] Result<Folder> open_own_folder(const std::string& path);

// The sessions that made room for a new one: NAME is now NAME.old, and what was NAME.old, the older
// one, is NAME.old.PID (where that is taken NAME.old.PID.2, …) until remove_older(), so that all of
// them can be put back.
// What the killed recorders of these sessions left under such a name goes then, too.
class EarlierSessions {
 public:
  EarlierSessions() = default;
  EarlierSessions(Folder parent, std::string name, std::string older, std::vector<std::string> left)
      : parent_(std::move(parent)),
        name_(std::move(name)),
        older_(std::move(older)),
        left_(std::move(left)) {}

  // "the earlier run is now run.old; …", for the user; empty: there was none.
  [[nodiscard]] std::string text() const;
  // Removes at once what would go at the end, where the disk has less room than that takes: the new
  // session is as large as it, as far as anybody knows. What was done, for the user.
  [[nodiscard]] std::string make_room();
  // Does nothing where there is none.
  [[nodiscard]] Result<void> remove_older();
  // NAME must be gone, or an empty folder.
  [[nodiscard]] Result<void> put_back();

 private:
  [[nodiscard]] Result<void> remove(const std::string& name);

  std::optional<Folder> parent_;
  std::string name_, older_;  // older_: empty: none
  std::vector<std::string> left_;
};

// A new session's folder with its raw/, and the lock that its writer holds as long as it lives.
struct NewSession {
  Folder folder;
  UniqueFd lock;
  EarlierSessions earlier;  // whoever removes `folder` puts them back
};
// An earlier session of that name becomes NAME.old. A folder that holds anything else is refused.
// Where there is no new session all is as it was.
[[nodiscard]] Result<NewSession> make_session(const std::string& path);
// The same below a folder of its owner's.
[[nodiscard]] Result<NewSession> make_session(const Folder& parent, const std::string& name);

// The folder of a session that is there, to write into it. Root acts as the owner of the folder.
[[nodiscard]] Result<Folder> open_session_folder(const std::string& path);

// Removes it with all that is in it: nothing was recorded.
[[nodiscard]] Result<void> remove_session_folder(Folder session);

// The lock of a session that is there; an Error when its writer holds it.
[[nodiscard]] Result<UniqueFd> lock_session(const Folder& session);

}  // namespace trapline
