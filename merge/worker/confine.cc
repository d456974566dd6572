#include "merge/worker/confine.h"

#include <dirent.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "backend_ftrace/base/descriptors.h"
#include "backend_ftrace/base/worker_message.h"

namespace trapline::worker {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#elif defined(__riscv) && __riscv_xlen == 64
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_RISCV64;
#else
constexpr std::uint32_t kArchitecture = 0;  // no filter
#endif

// Memory, the descriptors that it has, its end.
constexpr long kAllowed[] = {
    SYS_read,        SYS_write,        SYS_readv,         SYS_writev,       SYS_pread64,
    SYS_lseek,       SYS_recvmsg,      SYS_sendmsg,       SYS_recvfrom,     SYS_sendto,
    SYS_close,       SYS_fstat,        SYS_dup,           SYS_brk,          SYS_munmap,
    SYS_mremap,      SYS_madvise,      SYS_futex,         SYS_rt_sigreturn, SYS_rt_sigprocmask,
    SYS_exit,        SYS_exit_group,   SYS_clock_gettime, SYS_gettimeofday, SYS_getrandom,
    SYS_sched_yield, SYS_getpid,       SYS_gettid,        SYS_memfd_create, SYS_restart_syscall,
    SYS_setitimer,   SYS_rt_sigaction,
};
// Memory that is not executed.
constexpr long kAllowedWithoutExec[] = {SYS_mmap, SYS_mprotect};
// Libraries try these and go on without.
constexpr long kRefused[] = {
#if defined(__x86_64__)
    SYS_open,       SYS_stat,
    SYS_lstat,      SYS_access,
    SYS_readlink,   SYS_unlink,
#endif
    SYS_openat,     SYS_newfstatat,
    SYS_statx,      SYS_faccessat,
    SYS_readlinkat, SYS_unlinkat,
    SYS_ioctl,      SYS_fcntl,
    SYS_ftruncate,  SYS_prlimit64,
    SYS_uname,      SYS_sysinfo,
    SYS_getcwd,     SYS_sched_getaffinity,
    SYS_getdents64,
};

class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    skip_unless(BPF_JEQ, kArchitecture, 1);
    jump_over(1);
    kill();
    load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    skip_unless(BPF_JGE, 0x40000000, 1);  // the x32 numbers
    kill();
#endif
    for (const long number : kAllowed) {
      skip_unless(BPF_JEQ, static_cast<std::uint32_t>(number), 1);
      answer(SECCOMP_RET_ALLOW);
    }
    for (const long number : kAllowedWithoutExec) {
      skip_unless(BPF_JEQ, static_cast<std::uint32_t>(number), 4);
      load(offsetof(seccomp_data, args) + 2 * sizeof(std::uint64_t));  // its low half
      skip_unless(BPF_JSET, PROT_EXEC, 1);
      kill();
      answer(SECCOMP_RET_ALLOW);
    }
    skip_unless(BPF_JEQ, SYS_tgkill, 4);  // abort()
    load(offsetof(seccomp_data, args));
    skip_unless(BPF_JEQ, static_cast<std::uint32_t>(::getpid()), 1);
    answer(SECCOMP_RET_ALLOW);
    kill();
    for (const long number : kRefused) {
      skip_unless(BPF_JEQ, static_cast<std::uint32_t>(number), 1);
      answer(SECCOMP_RET_ERRNO | EACCES);
    }
    kill();
  }
  // Whether it is in force.
  [[nodiscard]] bool install() {
    sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  void add(int code, std::uint32_t value, std::uint8_t if_true = 0, std::uint8_t if_false = 0) {
    code_.push_back({static_cast<std::uint16_t>(code), if_true, if_false, value});
  }
  void load(std::size_t offset) {
    add(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
  }
  void skip_unless(int test, std::uint32_t value, std::uint8_t count) {
    add(BPF_JMP | test | BPF_K, value, 0, count);
  }
  void jump_over(std::uint32_t count) { add(BPF_JMP | BPF_JA, count); }
  void answer(std::uint32_t what) { add(BPF_RET | BPF_K, what); }
  void kill() { answer(SECCOMP_RET_KILL_PROCESS); }

  std::vector<sock_filter> code_;
};

// At `value` a signal, at `last` the end.
bool limit(__rlimit_resource what, rlim_t value, rlim_t last) {
  rlimit before{};
  if (::getrlimit(what, &before) == 0) last = std::min(last, before.rlim_max);
  const rlimit both{std::min(value, last), last};
  return ::setrlimit(what, &both) == 0;
}
bool limit(__rlimit_resource what, rlim_t value) { return limit(what, value, value); }

}  // namespace

std::uint32_t confine(std::uint64_t memory, std::uint64_t seconds) {
  close_all_from(3);  // all but standard input, output and error
  // A key that ends the program ends its worker through the socket; until then it answers.
  for (const int signal : {SIGINT, SIGQUIT, SIGHUP, SIGPIPE}) (void)::signal(signal, SIG_IGN);
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  bool limited = limit(RLIMIT_CORE, 0);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // Their shadow takes terabytes, and a report reads files.
  (void)memory;
  (void)seconds;
  (void)limited;
  return 0;
#else
  constexpr rlim_t kFiles = 16;
  limited &= limit(RLIMIT_NOFILE, kFiles);
  if (memory != 0) limited &= limit(RLIMIT_AS, memory) && limit(RLIMIT_FSIZE, memory);
  if (seconds != 0) limited &= limit(RLIMIT_CPU, seconds, seconds + 1);
  const bool filtered = kArchitecture != 0 && Filter().install();
  return (filtered ? static_cast<std::uint32_t>(WorkerStatus::kFiltered) : 0) |
         (limited ? static_cast<std::uint32_t>(WorkerStatus::kLimited) : 0);
#endif
}

}  // namespace trapline::worker
