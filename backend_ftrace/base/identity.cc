#include "backend_ftrace/base/identity.h"

#include <grp.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

namespace trapline {
namespace {

// Sets the groups of this thread only; glibc's setgroups() sets those of all threads.
bool set_groups(const std::vector<gid_t>& groups) {
#ifdef SYS_setgroups32
  constexpr long kCall = SYS_setgroups32;
#else
  constexpr long kCall = SYS_setgroups;
#endif
  return ::syscall(kCall, groups.size(), groups.data()) == 0;
}

// With this invalid id setfsuid() and setfsgid() only return the present one.
constexpr auto kAsk = static_cast<uid_t>(-1);

uid_t kernels_uid() { return static_cast<uid_t>(::setfsuid(kAsk)); }
gid_t kernels_gid() { return static_cast<gid_t>(::setfsgid(kAsk)); }

// The file-system user that ActAs set for this thread. Nothing else changes it, so acting_uid()
// need not ask the kernel: QEMU's -sandbox elevateprivileges=deny kills the process for setfsuid.
thread_local std::optional<uid_t> acting;  // nullopt: the process's own user

// The two halves of a capability set in capget(2) and capset(2).
using Capabilities = std::array<__user_cap_data_struct, 2>;

bool get_capabilities(Capabilities& now) {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  return ::syscall(SYS_capget, &head, now.data()) == 0;
}
bool set_capabilities(const Capabilities& wanted) {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  return ::syscall(SYS_capset, &head, wanted.data()) == 0;
}

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
  // A thread that has root's rights with another user's groups, or the reverse, must not go on.
  if (!set_groups(groups_) || kernels_uid() != uid_ || kernels_gid() != gid_) std::terminate();
  acting = before_;
}

ActAs::~ActAs() {
  if (changed_) leave();
}

Result<void> keep_capabilities(const std::vector<int>& kept) {
  Capabilities left{};
  if (!get_capabilities(left)) return fail("capget: {}", std::strerror(errno));
  Capabilities wanted{};
  for (const int capability : kept) {
    auto& half = wanted[static_cast<std::size_t>(capability / 32)];
    half.permitted |= 1u << (capability % 32);
  }
  for (std::size_t half = 0; half < wanted.size(); ++half) {
    wanted[half].permitted &= left[half].permitted;
    wanted[half].effective = wanted[half].permitted & left[half].effective;
  }
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    if (std::ranges::find(kept, capability) == kept.end())
      (void)::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  // A failure is ignored: a sandbox may forbid capset. What counts is what is left afterwards.
  (void)set_capabilities(wanted);
  if (!get_capabilities(left)) return fail("capget: {}", std::strerror(errno));
  for (std::size_t half = 0; half < wanted.size(); ++half)
    if ((left[half].effective & ~wanted[half].effective) != 0)
      return fail("root's rights cannot be given up: capset: {}", std::strerror(errno));
  return {};
}

Result<void> give_up_root(const std::optional<Identity>& who) {
  const auto failed = [](const char* what) {
    return fail("root's rights cannot be given up: {}: {}", what, std::strerror(errno));
  };
  // The capability bounding set is emptied before the uid changes, since that needs root. If it
  // fails, PR_SET_NO_NEW_PRIVS still holds.
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability)
    (void)::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (who) {
    if (::setgroups(who->groups.size(), who->groups.data()) != 0) return failed("setgroups");
    if (::setresgid(who->gid, who->gid, who->gid) != 0) return failed("setresgid");
    if (::setresuid(who->uid, who->uid, who->uid) != 0) return failed("setresuid");
  }
  Capabilities left{};
  if (!set_capabilities(left)) return failed("capset");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("PR_SET_NO_NEW_PRIVS");
// The leak checker is a process of its own and must trace this one.
#if !defined(__SANITIZE_ADDRESS__)
  (void)::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
  errno = EPERM;
  if (!get_capabilities(left) || (left[0].effective | left[1].effective) != 0 ||
      (who && who->uid != 0 && ::setuid(0) == 0)) {
    return failed("some are left");
  }
  return {};
}

void with_later_rights(const std::optional<Identity>& who, const std::function<void()>& work) {
  const ActAs as(who);
  Capabilities before{};
  if (who || !get_capabilities(before)) return work();
  Capabilities none = before;
  for (auto& half : none) half.effective = 0;
  const bool changed = set_capabilities(none);
  work();
  if (changed && !set_capabilities(before)) std::terminate();
}

}  // namespace trapline
