// The user whose rights the kernel checks file operations by.
//
// Root that works in a folder of somebody else acts as him: a link, a name or a file that he, or a
// process of his, puts in its way leads nowhere that he could not go himself. What is made belongs
// to him from the start, also where the file system gives root no rights (root_squash).
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
  std::vector<gid_t> groups;  // besides gid
};

// While it lives, this thread's file operations are that user's (setfsuid, setfsgid, setgroups of
// the thread alone; signals, ptrace and other threads see root as before). Without an identity, or
// where this process is not root, it changes nothing. Nested ones of one user cost a system call.
// No child may be started meanwhile: it would keep the identity.
class ActAs {
 public:
  explicit ActAs(const std::optional<Identity>& who);
  ~ActAs();
  ActAs(const ActAs&) = delete;
  ActAs& operator=(const ActAs&) = delete;
  // False where the identity could not be taken (no CAP_SETUID, a user namespace without it): the
  // caller must not go on.
  explicit operator bool() const { return possible_; }

 private:
  void leave();

  bool changed_ = false, possible_ = true;
  uid_t uid_ = 0;  // as it was before
  std::optional<uid_t> before_;
  gid_t gid_ = 0;
  std::vector<gid_t> groups_;
};

// Gives up root's rights for good, in a process of one thread. Its uid, gid and groups become
// those of `who` (without one it stays root), it keeps no capability and gets none by executing a
// program, and no other process of that user may look into it.
// An Error where the kernel leaves it a right: the caller must not go on.
[[nodiscard]] Result<void> give_up_root(const std::optional<Identity>& who);
// Gives up all capabilities but these (CAP_KILL, …), for good: of this thread, and of threads and
// programs that it starts. An Error where the kernel leaves it another one.
[[nodiscard]] Result<void> keep_capabilities(const std::vector<int>& kept);
// Runs `work` with the rights that file operations of this thread will have after that.
void with_later_rights(const std::optional<Identity>& who, const std::function<void()>& work);

// The user whose rights count now, in this thread. No call that a sandbox forbids.
[[nodiscard]] uid_t acting_uid();

}  // namespace trapline
