// The user whose rights the kernel checks file operations by.
//
// When root works in another user's folder, it acts as that user: a link, a name or a file that the
// user, or one of his processes, puts in its way leads nowhere that the user could not go himself.
// New files belong to the user from the start, also where the file system gives root no rights
// (root_squash).
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <vector>

#include "backend_ftrace/base/result.h"

namespace trapline {

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary groups, without gid
};

// Gives this thread's file operations the user's rights while the object lives (setfsuid, setfsgid
// and setgroups of this thread alone; signals, ptrace and other threads see root as before). Does
// nothing without an identity or if this process is not root. A nested object for the same user
// costs one system call. A child that is started meanwhile keeps the identity.
class ActAs {
 public:
  explicit ActAs(const std::optional<Identity>& who);
  ~ActAs();
  ActAs(const ActAs&) = delete;
  ActAs& operator=(const ActAs&) = delete;
  // False when the kernel does not allow the identity (no CAP_SETUID, a user namespace without this
  // user): the caller must not go on.
  explicit operator bool() const { return possible_; }

 private:
  void leave();

  bool changed_ = false, possible_ = true;
  uid_t uid_ = 0;  // the thread's user before
  std::optional<uid_t> before_;
  gid_t gid_ = 0;
  std::vector<gid_t> groups_;
};

// Gives up root's rights for good, in a process of one thread. The process takes the uid, gid and
// groups of `who` (without `who` it stays root), keeps no capability, gains none by executing a
// program, and other processes of that user cannot trace it. Returns an Error if the process still
// has a right of root's; the caller must not go on.
[[nodiscard]] Result<void> give_up_root(const std::optional<Identity>& who);
// Gives up all capabilities but `kept` (CAP_KILL, …) for good, for this thread and the threads and
// programs that it starts. Returns an Error if another capability remains.
[[nodiscard]] Result<void> keep_capabilities(const std::vector<int>& kept);
// Runs `work` with the file rights that this thread will have after give_up_root(who).
void with_later_rights(const std::optional<Identity>& who, const std::function<void()>& work);

// Returns the user whose rights this thread's file operations have. Makes no system call that a
// sandbox forbids.
[[nodiscard]] uid_t acting_uid();

}  // namespace trapline
