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

}  // namespace

Result<Child> start_watchdog(const std::string& tracefs, const std::string& name) {
  return Child::start([&](UniqueFd& pipe) { return watch(tracefs, name, pipe.get()); });
}

namespace {

constexpr std::string_view kPrefix = "trapline-";

// Returns field 22 of /proc/PID/stat, which is after the command's closing parenthesis (a name may
// contain blanks).
std::optional<std::uint64_t> start_time(std::uint64_t pid) {
  auto text = read_text(fmt::format("/proc/{}/stat", pid));
  if (!text) return std::nullopt;
  std::size_t at = text->rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text->find(' ', at + 1);
  if (at == std::string::npos) return std::nullopt;
  return parse_number(std::string_view(*text).substr(at + 1, text->find(' ', at + 1) - at - 1));
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
bool is_gone(int cause) { return cause == ENOENT || cause == ENODEV; }

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
  const auto first = instance.find('-');
  const auto second = instance.find('-', first == std::string_view::npos ? first : first + 1);
  if (second == std::string_view::npos) return Maker::kUnknown;
  const auto pid = parse_number(instance.substr(0, first));
  const auto started = parse_number(instance.substr(first + 1, second - first - 1));
  const auto space = parse_number(instance.substr(second + 1));
  // A recorder in another pid namespace cannot be looked up here.
  if (!pid || !started || !space || *started == 0 || *space != pid_namespace()) {
    return Maker::kUnknown;
  }
  struct stat status {};
  if (::stat("/proc/self/stat", &status) != 0) return Maker::kUnknown;
  return start_time(*pid) == started ? Maker::kAlive : Maker::kDead;
}

std::vector<std::string> remove_leftovers(const std::string& tracefs) {
  std::vector<std::string> lines;
  for (const std::string& name : instances_of(tracefs)) {
    if (maker_of(name) != Maker::kDead) continue;
    const auto leftover = FtraceControl::open(tracefs, name);
    if (!leftover) continue;  // another recorder that is starting has removed it
    const int cause = leftover->remove();
    if (cause == 0) {
      lines.push_back("removed the instance of a dead recorder: " + name);
      continue;
    }
    if (is_gone(cause)) continue;
    lines.push_back(
        fmt::format("the instance of a dead recorder stays: {}: {}", name, why_it_stays(cause)));
    (void)leftover->switch_off();
    (void)leftover->set_buffer_kb(FtraceControl::kLeastBufferKb);
  }
  return lines;
}

Instance::Instance(std::string root, std::string name, FtraceControl control)
    : root_(std::move(root)), name_(std::move(name)), control_(std::move(control)) {}

Instance::Instance(Instance&& other) noexcept
    : root_(std::move(other.root_)),
      name_(std::exchange(other.name_, {})),
      control_(std::move(other.control_)),
      watchdog_(std::move(other.watchdog_)),
      own_(other.own_) {}

Instance::~Instance() { (void)remove(0); }

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
  instance.watchdog_.emplace(std::move(*watchdog));
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
  Instance instance(std::move(*root), name, std::move(*control));
  instance.own_ = false;
  return instance;
}

Result<void> Instance::remove(unsigned wait_ms) {
  if (name_.empty() || !own_) return {};
  int cause = 0;
  for (unsigned waited = 0;; waited += 10) {
    cause = control_.remove();
    if (cause != EBUSY || waited >= wait_ms) break;
    ::usleep(10'000);
  }
  const bool gone = cause == 0 || is_gone(cause);
  if (!gone) {
    (void)control_.switch_off();
    (void)control_.set_buffer_kb(FtraceControl::kLeastBufferKb);
    if (watchdog_) watchdog_->let_go();  // the watchdog keeps trying to remove it
  }
  name_.clear();
  watchdog_.reset();
  if (gone) return {};
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
