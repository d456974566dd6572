#include "merge/worker/confine.h"

#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "backend_ftrace/base/descriptors.h"
#include "backend_ftrace/base/identity.h"
#include "backend_ftrace/base/worker_message.h"

namespace trapline::worker {
namespace {

// The allowed system calls: for memory, the open descriptors and exiting.
constexpr int kAllowed[] = {
    SCMP_SYS(read),         SCMP_SYS(write),        SCMP_SYS(readv),
    SCMP_SYS(writev),       SCMP_SYS(pread64),      SCMP_SYS(lseek),
    SCMP_SYS(recvmsg),      SCMP_SYS(sendmsg),      SCMP_SYS(recvfrom),
    SCMP_SYS(sendto),       SCMP_SYS(close),        SCMP_SYS(fstat),
    SCMP_SYS(dup),          SCMP_SYS(brk),          SCMP_SYS(munmap),
    SCMP_SYS(mremap),       SCMP_SYS(madvise),      SCMP_SYS(futex),
    SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(exit),         SCMP_SYS(exit_group),   SCMP_SYS(clock_gettime),
    SCMP_SYS(gettimeofday), SCMP_SYS(getrandom),    SCMP_SYS(sched_yield),
    SCMP_SYS(getpid),       SCMP_SYS(gettid),       SCMP_SYS(restart_syscall),
    SCMP_SYS(setitimer),
};
// System calls that libraries try and can do without. Some architectures lack the older ones.
constexpr int kRefused[] = {
    SCMP_SYS(open),       SCMP_SYS(stat),      SCMP_SYS(lstat),      SCMP_SYS(access),
    SCMP_SYS(readlink),   SCMP_SYS(unlink),    SCMP_SYS(openat),     SCMP_SYS(newfstatat),
    SCMP_SYS(statx),      SCMP_SYS(faccessat), SCMP_SYS(readlinkat), SCMP_SYS(unlinkat),
    SCMP_SYS(ioctl),      SCMP_SYS(fcntl),     SCMP_SYS(ftruncate),  SCMP_SYS(prlimit64),
    SCMP_SYS(uname),      SCMP_SYS(sysinfo),   SCMP_SYS(getcwd),     SCMP_SYS(sched_getaffinity),
    SCMP_SYS(getdents64),
};

bool install_filter() {
  const scmp_filter_ctx filter = make_filter(SCMP_ARCH_NATIVE);
  const bool installed = filter != nullptr && ::seccomp_load(filter) == 0;
  ::seccomp_release(filter);
  return installed;
}

// The first of the workers' uids. Above it, only user namespaces and systemd allocate uids, in
// ranges that do not overlap with the workers'.
constexpr uid_t kFirstUid = 0x70000000;
constexpr uid_t kOverflowUid = 65534;  // used if a user namespace lacks the workers' uids

// Returns whether the process may change its uid. A sandbox around the caller, such as QEMU's, may
// kill a process that asks for another uid, so a child asks first.
bool may_change_uid() {
  constexpr int kFiltered = 2;
  if (::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != kFiltered) return true;
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(::setresgid(kOverflowUid, kOverflowUid, kOverflowUid) == 0 &&
                    ::setresuid(kOverflowUid, kOverflowUid, kOverflowUid) == 0
                ? 0
                : 1);
  int status = 1;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

// Gives up rights. If root cannot take another uid, it stays root without capabilities.
void give_up_rights() {
  const uid_t own = kFirstUid + static_cast<uid_t>(::getpid());
  if (may_change_uid()) {
    for (const uid_t uid : {own, kOverflowUid})
      if (give_up_root(Identity{uid, uid, {}})) return;
  }
  (void)give_up_root(std::nullopt);
}

// Sets a limit: at `value` the process gets a signal, at `last` it is killed.
bool limit(__rlimit_resource what, rlim_t value, rlim_t last) {
  rlimit before{};
  if (::getrlimit(what, &before) == 0) last = std::min(last, before.rlim_max);
  const rlimit both{std::min(value, last), last};
  return ::setrlimit(what, &both) == 0;
}
bool limit(__rlimit_resource what, rlim_t value) { return limit(what, value, value); }

}  // namespace

void* make_filter(std::uint32_t architecture) {
  const scmp_filter_ctx filter = ::seccomp_init(SCMP_ACT_KILL_PROCESS);
  if (filter == nullptr) return nullptr;
  bool made = ::seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0;
  if (architecture != SCMP_ARCH_NATIVE && architecture != ::seccomp_arch_native())
    made = made && ::seccomp_arch_add(filter, architecture) == 0 &&
           ::seccomp_arch_remove(filter, SCMP_ARCH_NATIVE) == 0;
  for (const int call : kAllowed)
    made = made && ::seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0) == 0;
  const scmp_arg_cmp no_code{2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0};
  for (const int call : {SCMP_SYS(mmap), SCMP_SYS(mprotect)})
    made = made && ::seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &no_code) == 0;
  const scmp_arg_cmp own{0, SCMP_CMP_EQ, static_cast<scmp_datum_t>(::getpid()), 0};  // for abort()
  made = made && ::seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, &own) == 0;
  for (const int call : kRefused)
    made = made && ::seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), call, 0) == 0;
  if (made) return filter;
  ::seccomp_release(filter);
  return nullptr;
}

std::uint32_t confine(std::uint64_t memory, std::uint64_t seconds) {
  close_all_from(3);  // all but standard input, output and error
  // Ctrl-C ends the program, whose closed socket then ends the worker; until then the worker must
  // answer.
  for (const int signal : {SIGINT, SIGQUIT, SIGHUP, SIGPIPE}) (void)::signal(signal, SIG_IGN);
  bool limited = limit(RLIMIT_CORE, 0);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // The sanitizers' shadow memory takes terabytes, and their reports read files.
  (void)memory;
  (void)seconds;
  (void)limited;
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return 0;
#else
  const bool is_root = ::geteuid() == 0;
  if (is_root) give_up_rights();
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);  // after the change of uid, which clears this setting
  constexpr rlim_t kFiles = 16;
  limited &= limit(RLIMIT_NOFILE, kFiles);
  if (memory != 0) limited &= limit(RLIMIT_AS, memory) && limit(RLIMIT_FSIZE, memory);
  if (seconds != 0) limited &= limit(RLIMIT_CPU, seconds, seconds + 1);
  limited &= limit(RLIMIT_NPROC, 0);
  const bool filtered = install_filter();
  return (filtered ? static_cast<std::uint32_t>(WorkerStatus::kFiltered) : 0) |
         (limited ? static_cast<std::uint32_t>(WorkerStatus::kLimited) : 0) |
         (is_root ? static_cast<std::uint32_t>(WorkerStatus::kRoots) : 0);
#endif
}

}  // namespace trapline::worker
