#include "merge/record/instance.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "backend_ftrace/base/descriptors.h"
#include "backend_ftrace/base/identity.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "backend_ftrace/tracefs.h"

namespace trapline::record {
namespace {

// The watchdog is a process that removes an instance if the process that made the instance is
// killed.
//
// The watchdog exists before the instance. An instance records from its first moment, and the
// kernel takes a while to make it: a kill in between must not leave it behind.
//
//   maker ──── reads a pipe that nobody writes into ────── watchdog, asleep at the other end
//     │ killed, crashed: the kernel closes its end ──────────> tracing off, instance removed, end
//     │ ends, but a command still holds the marker: as killed ─> tries for an hour
//     │ ends well: removes the instance ─────────────────────> killed
//
// Guarantees: the watchdog is in a session of its own and ignores every signal that can be ignored,
// so that what ends the maker does not end the watchdog. It holds no file but the pipe, its working
// directory is /, and it costs nothing while the maker lives. If both are killed (SIGKILL to a
// whole cgroup), remove_leftovers() removes the instance later.

// An instance cannot be removed while a file of it is open. The kernel closes a killed recorder's
// files one after another, and a command that outlives the recorder still holds the marker. So the
// watchdog tries every 10 ms at first, then every second for an hour.
constexpr unsigned kQuickTries = 200, kAllTries = kQuickTries + 3600;
constexpr unsigned kShrinkAt = 10;

// Returns the inode of the instance's folder: a later instance of the same name has another one.
ino_t number_of(const FtraceControl& instance) {
  struct stat status {};
  return ::stat(instance.path("").c_str(), &status) == 0 ? status.st_ino : 0;
}

void take_away(const std::string& tracefs, const std::string& name) {
  const auto instance = FtraceControl::open(tracefs, name);
  if (!instance) return;
  (void)instance->switch_off();
  const ino_t number = number_of(*instance);
  for (unsigned tries = 0; tries < kAllTries; ++tries) {
    if (number_of(*instance) != number || instance->remove() != EBUSY) return;
    if (tries == kShrinkAt) (void)instance->set_buffer_kb(FtraceControl::kLeastBufferKb);
    (void)::poll(nullptr, 0, tries < kQuickTries ? 10 : 1000);
  }
}

int watch(const std::string& tracefs, const std::string& name, int pipe) {
  (void)::setsid();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  (void)::prctl(PR_SET_NAME, "trapline-guard");
  (void)!::chdir("/");
  (void)keep_capabilities({});  // none is needed: the instance belongs to this process's user
  if (::dup2(pipe, 0) < 0) return 1;
  close_all_from(1);
  pollfd maker{0, 0, 0};  // "no reader" is an error, which poll() always reports
  while (::poll(&maker, 1, -1) < 0 && errno == EINTR) continue;
  take_away(tracefs, name);
  return 0;
}

// Starts the watchdog for an instance that this process is about to make. Call it while the process
// has one thread. The watchdog ends with the returned object.
Result<Child> start_watchdog(const std::string& tracefs, const std::string& name) {
  return Child::start([&](UniqueFd& pipe) { return watch(tracefs, name, pipe.get()); });
}

constexpr std::string_view kPrefix = "trapline-";

// Returns field 22 of /proc/PID/stat, which is after the command's closing parenthesis (a name may
// contain blanks).
std::optional<std::uint64_t> start_time(std::uint64_t pid) {
  const std::string text = read_text(fmt::format("/proc/{}/stat", pid)).value_or("");
  const auto fields = split(std::string_view(text).substr(text.rfind(')') + 1), ' ');
  return fields.size() > 20 ? parse_number(fields[20]) : std::nullopt;
}

std::uint64_t pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

std::string make_name() {
  const auto pid = static_cast<std::uint64_t>(::getpid());
  return fmt::format("{}{}-{}-{}", kPrefix, pid, start_time(pid).value_or(0), pid_namespace());
}

// Checks the errno of rmdir. tracefs unlocks the folder before it looks the instance up, so if two
// processes remove the same one, the slower gets ENODEV (instance_rmdir, kernel/trace/trace.c).
bool is_gone(int cause) { return cause == 0 || cause == ENOENT || cause == ENODEV; }

// Removes the instance; waits up to `wait_ms` for processes that still have a file of it open. One
// that stays stops recording. Returns 0 or the errno of rmdir.
int try_remove(const FtraceControl& instance, unsigned wait_ms) {
  int cause = instance.remove();
  for (unsigned waited = 0; cause == EBUSY && waited < wait_ms; waited += 10) {
    ::usleep(10'000);
    cause = instance.remove();
  }
  if (is_gone(cause)) return cause;
  (void)instance.switch_off();
  (void)instance.set_buffer_kb(FtraceControl::kLeastBufferKb);
  return cause;
}

tl::unexpected<Error> cannot_make(const std::string& root, const std::string& name, int cause) {
  const std::string folder = root + "/instances/" + name;
  if (cause == EEXIST) {
    return fail(ErrorKind::kUsage,
                "--instance {}: there is an ftrace instance of that name; choose another name, or "
                "remove it when nobody uses it: rmdir {}",
                name, folder);
  }
  if (cause == EACCES || cause == EPERM) {
    return fail(
        "{}/instances: not permitted to make an instance; run as root, with --user NAME "
        "for the command",
        root);
  }
  if (cause == ENOENT) {
    return fail(
        "{}/instances: not there; this kernel lacks ftrace instances, or tracefs is not "
        "mounted: mount -t tracefs nodev /sys/kernel/tracing",
        root);
  }
  return fail("{}: {}", folder, std::strerror(cause));
}

std::string why_it_stays(int cause) {
  return cause == EBUSY ? "a process still holds its marker open" : std::strerror(cause);
}

bool is_folder_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name != "." && name != "..";
}

}  // namespace

Result<std::string> find_tracefs() {
  char root[tracefs::kMaxPath];
  if (!tracefs::find(root)) {
    return fail("tracefs is not mounted; as root: mount -t tracefs nodev /sys/kernel/tracing");
  }
  return std::string(root);
}

Maker maker_of(std::string_view instance) {
  if (!instance.starts_with(kPrefix)) return Maker::kUnknown;
  instance.remove_prefix(kPrefix.size());
  std::uint64_t pid = 0, started = 0, space = 0;
  // A recorder in another pid namespace cannot be looked up here.
  if (!take_number_to(instance, pid, '-') || !take_number_to(instance, started, '-') ||
      !take_number(instance, space) || !instance.empty() || started == 0 ||
      space != pid_namespace())
    return Maker::kUnknown;
  struct stat status {};
  if (::stat("/proc/self/stat", &status) != 0) return Maker::kUnknown;
  return start_time(pid) == started ? Maker::kAlive : Maker::kDead;
}

std::vector<std::string> remove_leftovers(const std::string& tracefs) {
  std::vector<std::string> lines;
  for (const std::string& name : instances_of(tracefs)) {
    if (maker_of(name) != Maker::kDead) continue;
    const auto leftover = FtraceControl::open(tracefs, name);
    if (!leftover) continue;  // another recorder that is starting has removed it
    const int cause = try_remove(*leftover, 0);
    if (cause == 0) {
      lines.push_back("removed the instance of a dead recorder: " + name);
    } else if (!is_gone(cause)) {
      lines.push_back(
          fmt::format("the instance of a dead recorder stays: {}: {}", name, why_it_stays(cause)));
    }
  }
  return lines;
}

Instance::Instance(std::string root, std::string name, FtraceControl control)
    : root_(std::move(root)), name_(std::move(name)), control_(std::move(control)) {}

Result<Instance> Instance::create(const std::string& wanted) {
  auto root = find_tracefs();
  if (!root) return tl::unexpected(std::move(root).error());
  if (!wanted.empty() && !is_folder_name(wanted)) {
    return fail(ErrorKind::kUsage, "--instance {}: a name without / is expected", wanted);
  }
  if (wanted.size() > NAME_MAX) {
    return fail(ErrorKind::kUsage, "--instance: a name of at most {} bytes is expected", NAME_MAX);
  }
  std::string name = wanted.empty() ? make_name() : wanted;
  // Looks for the name before the watchdog starts: the watchdog must not remove somebody else's
  // instance.
  if (FtraceControl::open(*root, name)) return cannot_make(*root, name, EEXIST);
  auto watchdog = start_watchdog(*root, name);
  if (!watchdog) return tl::unexpected(std::move(watchdog).error());
  auto control = FtraceControl::make(*root, name);
  if (!control) return cannot_make(*root, name, control.error());
  Instance instance(std::move(*root), std::move(name), std::move(*control));
  instance.watchdog_ = std::make_unique<Child>(std::move(*watchdog));
  if (auto off = instance.control_.switch_tracing(false); !off) {
    return tl::unexpected(std::move(off).error());
  }
  return instance;
}

Result<Instance> Instance::attach(const std::string& name, std::string_view option) {
  auto root = find_tracefs();
  if (!root) return tl::unexpected(std::move(root).error());
  auto control =
      is_folder_name(name) ? FtraceControl::open(*root, name) : tl::make_unexpected(ENOENT);
  if (!control) {
    return fail(ErrorKind::kUsage,
                "{} {}: there is no ftrace instance of that name; ls {}/instances shows them",
                option, name, *root);
  }
  return Instance(std::move(*root), name, std::move(*control));
}

Result<void> Instance::remove() {
  if (!watchdog_) return {};
  const int cause = try_remove(control_, 1000);
  // The watchdog keeps trying to remove an instance that stays.
  if (!is_gone(cause)) watchdog_->let_go();
  watchdog_.reset();
  if (is_gone(cause)) return {};
  return fail("{}: cannot be removed: {}; the next trapline record does, or: rmdir {}", path(""),
              why_it_stays(cause), path(""));
}

Result<void> Instance::switch_on(bool with_top_level_marker) const {
  auto on = control_.switch_tracing(true);
  if (on && with_top_level_marker && control_.has(FtraceControl::kCopyMarker)) {
    return control_.set(FtraceControl::kCopyMarker, "1");
  }
  return on;
}

}  // namespace trapline::record
