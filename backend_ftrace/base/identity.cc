#include "backend_ftrace/base/identity.h"

#include <grp.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <exception>
#include <utility>

namespace trapline {
namespace {

// Of this thread only: glibc's setgroups() is for all of them.
bool set_groups(const std::vector<gid_t>& groups) {
#ifdef SYS_setgroups32
  constexpr long kCall = SYS_setgroups32;
#else
  constexpr long kCall = SYS_setgroups;
#endif
  return ::syscall(kCall, groups.size(), groups.data()) == 0;
}

constexpr auto kAsk = static_cast<uid_t>(-1);  // no such user: nothing changes

uid_t kernels_uid() { return static_cast<uid_t>(::setfsuid(kAsk)); }
gid_t kernels_gid() { return static_cast<gid_t>(::setfsgid(kAsk)); }

// Nothing else changes a thread's file-system user, so nobody has to ask the kernel: QEMU's
// -sandbox elevateprivileges=deny kills the process for setfsuid.
thread_local std::optional<uid_t> acting;  // none: the process's own

}  // namespace

uid_t acting_uid() { return acting ? *acting : ::geteuid(); }

ActAs::ActAs(const std::optional<Identity>& who) {
  if (!who || ::geteuid() != 0) return;
  uid_ = acting_uid();
  if (uid_ == who->uid) return;
  gid_ = kernels_gid();
  const int count = ::getgroups(0, nullptr);
  groups_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  possible_ = count >= 0 && ::getgroups(count, groups_.data()) == count && set_groups(who->groups);
  if (!possible_) return;
  changed_ = true;
  ::setfsgid(who->gid);
  ::setfsuid(who->uid);
  possible_ = kernels_uid() == who->uid && kernels_gid() == who->gid;
  before_ = std::exchange(acting, who->uid);
  if (!possible_) leave();
}

void ActAs::leave() {
  changed_ = false;
  ::setfsuid(uid_);
  ::setfsgid(gid_);
  // Root with somebody else's rights, or the other way round, must not go on.
  if (!set_groups(groups_) || kernels_uid() != uid_ || kernels_gid() != gid_) std::terminate();
  acting = before_;
}

ActAs::~ActAs() {
  if (changed_) leave();
}

}  // namespace trapline
