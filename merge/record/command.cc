#include "merge/record/command.h"

#include <fcntl.h>
#include <grp.h>
#include <mntent.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

extern "C" {  // missing in the header of glibc 2.36
#include <sys/pidfd.h>
}

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "backend_ftrace/base/descriptors.h"
#include "backend_ftrace/base/duration.h"
#include "backend_ftrace/base/inherited.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/uninterrupted.h"
#include "backend_ftrace/clock.h"

namespace trapline::record {
namespace {

constexpr const char* kExecution = "execution";

// The step that failed in the child before the command ran, and its errno. The child sends this to
// the recorder through a pipe.
struct Verdict {
  char step[32];
  int cause;
};

[[noreturn]] void give_up(int verdict, const char* step) {
  Verdict failure{};
  failure.cause = errno;
  std::strncpy(failure.step, step, sizeof failure.step - 1);
  (void)!::write(verdict, &failure, sizeof failure);
  ::_exit(127);
}

// Executes the program with the caller's signals and limit on open files. Returns if that fails.
void execute(const std::vector<std::string>& words) {
  restore_signals();
  restore_open_files();
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
}

bool show(const std::string& file, const std::string& place) {
  return ::mount(file.c_str(), place.c_str(), nullptr, MS_BIND, nullptr) == 0;
}

// Returns all mount points of tracefs, because a program may use another one than the recorder.
std::vector<std::string> tracefs_mounts() {
  std::vector<std::string> places;
  FILE* mounts = ::setmntent("/proc/self/mounts", "r");
  if (mounts == nullptr) return places;
  while (const mntent* mount = ::getmntent(mounts))
    if (std::strcmp(mount->mnt_type, "tracefs") == 0) places.emplace_back(mount->mnt_dir);
  ::endmntent(mounts);
  return places;
}

// Enters a mount namespace in which the command finds options.shown_marker in the place of the
// top-level trace_marker. QEMU also writes to tracing_on there: /dev/null is mounted over it.
bool show_marker(const CommandOptions& options) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return false;
  }
  std::vector<std::string> places = tracefs_mounts();
  if (options.user) {
    // Only root can enter tracefs. So the instance's folder is mounted in its place: the user can
    // enter that, and open the marker in it but none of root's other files.
    for (const std::string& place : places)
      if (place != options.tracefs) (void)::umount2(place.c_str(), MNT_DETACH);
    if (::chmod(options.instance.c_str(), 0711) != 0 || !show(options.instance, options.tracefs)) {
      return false;
    }
    places.clear();
  }
  if (std::find(places.begin(), places.end(), options.tracefs) == places.end()) {
    places.push_back(options.tracefs);
  }
  const bool is_there = options.user && options.shown_marker.starts_with(options.instance);
  return std::all_of(places.begin(), places.end(), [&](const std::string& place) {
    return (is_there || show(options.shown_marker, place + "/trace_marker")) &&
           show("/dev/null", place + "/tracing_on");
  });
}

bool become(const User& user) {
  return ::initgroups(user.name.c_str(), user.gid) == 0 && ::setgid(user.gid) == 0 &&
         ::setuid(user.uid) == 0;
}

[[noreturn]] void run_child(const CommandOptions& options, int gate, int verdict) {
  char open = 0;
  if (::read(gate, &open, 1) != 1) ::_exit(127);  // the recorder is gone
  if (!options.shown_marker.empty() && !show_marker(options)) give_up(verdict, "mount namespace");
  if (options.marker_fd >= 0) {
    ::fcntl(options.marker_fd, F_SETFD, 0);
    ::setenv("TRAPLINE_FTRACE_FD", std::to_string(options.marker_fd).c_str(), 1);
  }
  if (!options.instance_name.empty()) {
    ::setenv("TRAPLINE_FTRACE_INSTANCE", options.instance_name.c_str(), 1);
    // A user who cannot pass through tracefs opens the marker through the inherited descriptor.
    const std::string marker = options.user ? fmt::format("/proc/self/fd/{}", options.marker_fd)
                                            : options.instance + "/trace_marker";
    ::setenv("TRAPLINE_FTRACE_MARKER", marker.c_str(), 1);
  }
  ::umask(options.umask);
  if (options.user && !become(*options.user)) give_up(verdict, "becoming the user");
  execute(options.words);
  give_up(verdict, kExecution);
}

// Returns the kind of Error for the errno with which a program cannot be run. As a shell's exit
// status does, the kind distinguishes "not found" from "not executable".
ErrorKind kind_of(int cause) {
  return cause == ENOENT || cause == ENOTDIR ? ErrorKind::kNoSuchProgram
                                             : ErrorKind::kCannotExecute;
}

}  // namespace

Result<User> find_user(const std::string& name) {
  const passwd* entry = ::getpwnam(name.c_str());
  if (entry == nullptr) return fail(ErrorKind::kUsage, "--user {}: there is no such user", name);
  return User{name, entry->pw_uid, entry->pw_gid};
}

Result<std::string> find_program(const std::string& word) {
  const auto usable = [](const std::string& path) { return ::access(path.c_str(), X_OK) == 0; };
  if (word.find('/') != std::string::npos) {
    if (usable(word)) return word;
    return fail(kind_of(errno), "{}: cannot be run: {}", word, std::strerror(errno));
  }
  const char* variable = std::getenv("PATH");
  const std::string path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  for (const std::string_view folder : split(path, ':')) {
    const std::string file = std::string(folder) + "/" + word;
    if (usable(file)) return file;
  }
  return fail(ErrorKind::kNoSuchProgram, "{}: there is no such program in PATH", word);
}

Result<Command> Command::fork(const CommandOptions& options) {
  int gate[2];
  if (::pipe2(gate, O_CLOEXEC) != 0) return fail("pipe: {}", std::strerror(errno));
  const UniqueFd gate_out(gate[0]);
  UniqueFd gate_in(gate[1]);
  auto child = Child::start([&](UniqueFd& verdict) -> int {
    gate_in.reset();
    run_child(options, gate_out.get(), verdict.get());
  });
  if (!child) return tl::unexpected(std::move(child).error());
  Command command(std::move(*child));
  command.pidfd_.reset(::pidfd_open(command.pid(), 0));
  command.gate_ = std::move(gate_in);
  command.program_ = options.words.front();
  if (!command.pidfd_) return fail("pidfd_open: {}", std::strerror(errno));
  return command;
}

Result<void> Command::start() {
  if (::write(gate_.get(), "g", 1) != 1) return fail("{}: {}", program_, std::strerror(errno));
  gate_.reset();
  child_.let_go();  // the command may outlive the recorder from now on
  Verdict failure{};
  const ssize_t size =
      uninterrupted([&] { return ::read(child_.output().get(), &failure, sizeof failure); });
  child_.output().reset();
  if (size != static_cast<ssize_t>(sizeof failure)) return {};
  failure.step[sizeof failure.step - 1] = '\0';
  const bool is_its_own = std::strcmp(failure.step, kExecution) == 0;
  return fail(is_its_own ? kind_of(failure.cause) : ErrorKind::kRuntime, "{}: {} failed: {}",
              program_, failure.step, std::strerror(failure.cause));
}

std::string output_of(const std::vector<std::string>& words, const std::optional<User>& user,
                      int inherited) {
  auto child = Child::start([&](UniqueFd& output) {
    const int null = ::open("/dev/null", O_RDONLY);
    if (::dup2(null, 0) < 0 || ::dup2(output.get(), 1) < 0 || ::dup2(output.get(), 2) < 0) {
      return 127;
    }
    if (inherited >= 0) ::fcntl(inherited, F_SETFD, 0);
    if (user && !become(*user)) return 127;
    ::signal(SIGCHLD, SIG_DFL);  // the program may wait for child processes of its own
    execute(words);
    return 127;
  });
  if (!child) return {};
  std::string text;
  char buffer[4096];
  pollfd readable{child->output().get(), POLLIN, 0};
  const std::uint64_t until = read_clock(ClockId::kMono) + 10 * kSecond;  // for the whole answer
  for (std::uint64_t now = 0; text.size() < (1u << 20);) {
    now = read_clock(ClockId::kMono);
    if (now >= until || ::poll(&readable, 1, static_cast<int>((until - now) / 1'000'000) + 1) <= 0)
      break;
    const ssize_t size = ::read(child->output().get(), buffer, sizeof buffer);
    if (size <= 0) break;
    text.append(buffer, static_cast<std::size_t>(size));
  }
  return text;  // a program that still runs ends with `child`
}

}  // namespace trapline::record
