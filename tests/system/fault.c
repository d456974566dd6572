// Fails the n-th system call of a program. tests/system/faults.py runs it for every n.
//
//   fault ERROR N REPORT [--below FOLDER] -- PROGRAM ARGUMENT...
//   fault --calls N
//   fault --own-calls N
//
// ERROR is ENOSPC, EIO, EINTR, EAGAIN or short; each counts the calls that can fail so, of the
// program, its threads and the processes that it forks, until those become other programs. Call
// number N is not made (close is) and returns the error; "short" asks for half, or of a file that
// is read for one byte. N = 0: none. Of calls of one kind on one file, one after the other (a long
// file that is read in pieces), the first three count. --below: only calls on files below FOLDER.
// REPORT gets the pid, how many calls there were, and what the call was. The exit status is the
// program's, 128 and the number where a signal ended it. --calls makes N calls of one that hardly
// anybody makes, in bursts, for a recorder of the whole host to count; --own-calls of another one,
// for a recorder of this process.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kNoSpace = 1, kIo = 2, kInterrupted = 4, kAgain = 8, kShort = 16 };
enum { kMostAlike = 3 };
enum { kNone = -1, kFile, kPath, kPathAt };  // what the first arguments are

static const struct {
  const char* name;
  int bit, error;
} kErrors[] = {{"ENOSPC", kNoSpace, ENOSPC},
               {"EIO", kIo, EIO},
               {"EINTR", kInterrupted, EINTR},
               {"EAGAIN", kAgain, EAGAIN},
               {"short", kShort, 0}};

// How each can fail: as its manual page says, on some file system or device.
static const struct Call {
  long number;
  const char* name;
  int can, what;
} kCalls[] = {
#define CALL(name, can, what) \
  { SYS_##name, #name, can, what }
    CALL(read, kIo | kInterrupted | kAgain | kShort, kFile),
    CALL(pread64, kIo | kInterrupted | kShort, kFile),
    CALL(readv, kIo | kInterrupted, kFile),
    CALL(write, kNoSpace | kIo | kInterrupted | kAgain | kShort, kFile),
    CALL(pwrite64, kNoSpace | kIo | kInterrupted | kShort, kFile),
    CALL(writev, kNoSpace | kIo | kInterrupted, kFile),
    CALL(splice, kNoSpace | kIo | kInterrupted | kAgain | kShort, kFile),
    CALL(copy_file_range, kNoSpace | kIo | kInterrupted | kShort, kFile),
    CALL(sendmsg, kInterrupted, kFile),
    CALL(recvmsg, kInterrupted, kFile),
    CALL(fsync, kNoSpace | kIo | kInterrupted, kFile),
    CALL(fdatasync, kNoSpace | kIo | kInterrupted, kFile),
    CALL(ftruncate, kNoSpace | kIo | kInterrupted, kFile),
    CALL(fallocate, kNoSpace | kIo | kInterrupted, kFile),
    CALL(fstat, kIo, kFile),
    CALL(lseek, kIo, kFile),
    CALL(getdents64, kIo, kFile),
    CALL(fchmod, kIo, kFile),
    CALL(fchown, kIo, kFile),
    CALL(flock, kInterrupted | kAgain, kFile),
    CALL(ioctl, kIo, kFile),
    CALL(close, kIo | kInterrupted, kFile),
    CALL(open, kNoSpace | kIo | kInterrupted, kPath),
    CALL(stat, kIo, kPath),
    CALL(mkdir, kNoSpace | kIo, kPath),
    CALL(rmdir, kIo, kPath),
    CALL(unlink, kIo, kPath),
    CALL(rename, kNoSpace | kIo, kPath),
    CALL(readlink, kIo, kPath),
    CALL(access, kIo, kPath),
    CALL(openat, kNoSpace | kIo | kInterrupted, kPathAt),
    CALL(openat2, kNoSpace | kIo | kInterrupted | kAgain, kPathAt),
    CALL(newfstatat, kIo, kPathAt),
    CALL(statx, kIo, kPathAt),
    CALL(mkdirat, kNoSpace | kIo, kPathAt),
    CALL(unlinkat, kIo, kPathAt),
    CALL(renameat, kNoSpace | kIo, kPathAt),
    CALL(renameat2, kNoSpace | kIo, kPathAt),
    CALL(readlinkat, kIo, kPathAt),
    CALL(faccessat, kIo, kPathAt),
    CALL(faccessat2, kIo, kPathAt),
    CALL(fchmodat, kIo, kPathAt),
    CALL(poll, kInterrupted, kNone),
    CALL(ppoll, kInterrupted, kNone),
    CALL(wait4, kInterrupted, kNone),
    CALL(waitid, kInterrupted, kNone),
    CALL(nanosleep, kInterrupted, kNone),
    CALL(clock_nanosleep, kInterrupted, kNone),
    CALL(clone, kAgain, kNone),
    CALL(clone3, kAgain, kNone),
    CALL(fork, kAgain, kNone),
#undef CALL
};

static int wanted, wanted_bit;
static long wanted_number;
static const char* below;
static pid_t first;  // the program
static bool counting;
static long counted;
// Of the first thread and of the others: the last call, and how often in a row.
static struct Last {
  char text[PATH_MAX + 64];
  unsigned alike;
} lasts[2];
static char found[PATH_MAX + 256] = "-";

struct Held {  // the thread whose call it is, until the call returns
  pid_t thread;
  bool is_close;
  unsigned long long* changed;  // in `saved`
  struct user_regs_struct saved;
};
static struct Held held;

static void die(const char* what) {
  fprintf(stderr, "fault: %s: %s\n", what, strerror(errno));
  exit(125);
}

static const struct Call* find(long number) {
  for (size_t i = 0; i < sizeof kCalls / sizeof *kCalls; ++i) {
    if (kCalls[i].number == number && (kCalls[i].can & wanted_bit) != 0) return &kCalls[i];
  }
  return NULL;
}

// The file or path of a call, for the report and for --below.
static void describe(pid_t thread, const struct Call* call, const struct user_regs_struct* regs,
                     char text[PATH_MAX]) {
  char link[64];
  text[0] = '\0';
  if (call->what == kNone) return;
  if (call->what == kFile || (call->what == kPathAt && (int)regs->rdi != AT_FDCWD)) {
    snprintf(link, sizeof link, "/proc/%d/fd/%d", thread, (int)regs->rdi);
    const ssize_t size = readlink(link, text, PATH_MAX - 1);
    text[size > 0 ? size : 0] = '\0';
  }
  if (call->what == kFile) return;
  char name[256] = "";
  const unsigned long long at = call->what == kPath ? regs->rdi : regs->rsi;
  // Up to the end of its page: what follows may not be there.
  const size_t room = 4096 - at % 4096;
  const struct iovec to = {name, room < sizeof name - 1 ? room : sizeof name - 1};
  const struct iovec from = {(void*)at, to.iov_len};
  if (process_vm_readv(thread, &to, 1, &from, 1, 0) <= 0) return;
  const size_t used = name[0] == '/' ? 0 : strlen(text);
  snprintf(text + used, PATH_MAX - used, used > 0 ? "/%s" : "%s", name);
}

static bool is_traced_file(const char* file) { return strncmp(file, "/sys/kernel/", 12) == 0; }

// The argument that says how much, where the call can do less.
static unsigned long long* length_of(const struct Call* call, struct user_regs_struct* regs,
                                     const char* file) {
  const bool reads = call->number == SYS_read || call->number == SYS_pread64;
  // Of tracefs, a signalfd, a timerfd the kernel gives and takes whole records only.
  if (file[0] != '/' || (is_traced_file(file) && call->number != SYS_splice)) return NULL;
  unsigned long long* length =
      call->number == SYS_splice || call->number == SYS_copy_file_range ? &regs->r8 : &regs->rdx;
  if (*length < (call->number == SYS_splice ? 8192u : 2u)) return NULL;
  held.saved = *regs;
  held.changed = (unsigned long long*)((char*)&held.saved + ((char*)length - (char*)regs));
  *length = reads ? 1 : *length / 2;
  return length;
}

static void enter(pid_t thread) {
  struct user_regs_struct regs;
  if (ptrace(PTRACE_GETREGS, thread, NULL, &regs) != 0) return;
  // What the dynamic loader does before is not the program's.
  if ((long)regs.orig_rax == SYS_set_tid_address && thread == first) counting = true;
  const struct Call* call = counting ? find((long)regs.orig_rax) : NULL;
  if (call == NULL) return;
  char file[PATH_MAX];
  describe(thread, call, &regs, file);
  if (below != NULL && strncmp(file, below, strlen(below)) != 0) return;
  struct user_regs_struct changed = regs;
  if (wanted_bit == kShort && length_of(call, &changed, file) == NULL) return;
  struct Last* last = &lasts[thread == first];
  char now[sizeof last->text];
  snprintf(now, sizeof now, "%d %s %s", thread, call->name, file);
  last->alike = strcmp(now, last->text) == 0 ? last->alike + 1 : 1;
  memcpy(last->text, now, sizeof now);
  if (last->alike > kMostAlike && file[0] == '/') return;
  if (++counted != wanted_number) return;
  held.thread = thread;
  held.is_close = call->number == SYS_close;
  if (wanted_bit != kShort) {
    if (!held.is_close) changed.orig_rax = (unsigned long long)-1;
    held.changed = NULL;
  }
  snprintf(found, sizeof found, "%s(%s) in %s", call->name, file,
           thread == first ? "main" : "another");
  if (ptrace(PTRACE_SETREGS, thread, NULL, &changed) != 0) die("PTRACE_SETREGS");
}

static void leave(pid_t thread) {
  struct user_regs_struct regs;
  if (held.thread != thread) return;
  held.thread = 0;
  if (ptrace(PTRACE_GETREGS, thread, NULL, &regs) != 0) return;
  if (wanted_bit == kShort) {
    // What the program had there is there again.
    const size_t at = (size_t)((char*)held.changed - (char*)&held.saved);
    memcpy((char*)&regs + at, held.changed, sizeof *held.changed);
  } else {
    regs.rax = (unsigned long long)-(long long)wanted;
  }
  (void)ptrace(PTRACE_SETREGS, thread, NULL, &regs);
}

static void stopped(pid_t thread, int status) {
  const int signal = WSTOPSIG(status), event = status >> 16;
  if (signal == (SIGTRAP | 0x80)) {
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) > 0) {
      if (info.op == PTRACE_SYSCALL_INFO_ENTRY) enter(thread);
      if (info.op == PTRACE_SYSCALL_INFO_EXIT) leave(thread);
    }
    (void)ptrace(PTRACE_SYSCALL, thread, NULL, NULL);
  } else if (event == PTRACE_EVENT_EXEC && thread != first) {
    (void)ptrace(PTRACE_DETACH, thread, NULL, NULL);
  } else if (event == PTRACE_EVENT_STOP) {
    const bool of_group =
        signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
    (void)ptrace(of_group ? PTRACE_LISTEN : PTRACE_SYSCALL, thread, NULL, NULL);
  } else {
    (void)ptrace(PTRACE_SYSCALL, thread, NULL, (void*)(long)(event != 0 ? 0 : signal));
  }
}

static int follow(void) {
  int result = 125, status = 0;
  for (pid_t thread; (thread = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR;) {
    if (thread < 0) continue;
    if (WIFSTOPPED(status)) {
      stopped(thread, status);
    } else if (thread == first) {
      result = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
  }
  return result;
}

static int make_calls(long number, bool own) {
  struct timespec time;
  struct sched_param param;
  for (long made = 0; made < number; ++made) {
    if (made % 1000 == 0) usleep(5000);
    (void)(own ? sched_getparam(0, &param) : sched_rr_get_interval(0, &time));
  }
  return 0;
}

static void begin(char** command) {
  first = fork();
  if (first < 0) die("fork");
  if (first == 0) {
    raise(SIGSTOP);
    execvp(command[0], command);
    die(command[0]);
  }
  int status = 0;
  if (waitpid(first, &status, WUNTRACED) != first) die("waitpid");
  if (ptrace(PTRACE_SEIZE, first, NULL,
             (void*)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                     PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)) != 0) {
    die("PTRACE_SEIZE");
  }
  kill(first, SIGCONT);
}

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], "--calls") == 0) return make_calls(atol(argv[2]), false);
  if (argc == 3 && strcmp(argv[1], "--own-calls") == 0) return make_calls(atol(argv[2]), true);
  int at = 4;
  if (argc > 6 && strcmp(argv[4], "--below") == 0) below = argv[5], at = 6;
  if (argc < at + 2 || strcmp(argv[at], "--") != 0) {
    fprintf(stderr, "usage: fault ERROR N REPORT [--below FOLDER] -- PROGRAM ARGUMENT...\n");
    return 125;
  }
  for (size_t i = 0; i < sizeof kErrors / sizeof *kErrors; ++i) {
    if (strcmp(kErrors[i].name, argv[1]) == 0)
      wanted = kErrors[i].error, wanted_bit = kErrors[i].bit;
  }
  if (wanted_bit == 0) return 125;
  wanted_number = atol(argv[2]);
  FILE* report = fopen(argv[3], "we");
  if (report == NULL) die(argv[3]);
  begin(argv + at + 1);
  fprintf(report, "%d\n", first);
  fflush(report);
  for (int i = 1; i < NSIG; ++i) {
    if (i == SIGTERM || i == SIGINT) signal(i, SIG_IGN);  // they are the program's
  }
  const int result = follow();
  fprintf(report, "%ld\n%s\n", counted, found);
  fclose(report);
  return result;
}
