#include "merge/record/running_qemu.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/record/qemu_command.h"
#include "merge/record/vm_names.h"
#include "merge/session/session_folder.h"
#include "merge/source/kernel_events/event_texts.h"

namespace trapline::record {
namespace {

namespace fs = std::filesystem;

std::optional<User> user_named(uid_t uid) {
  const passwd* entry = ::getpwuid(uid);
  if (entry == nullptr) return std::nullopt;
  return User{entry->pw_name, entry->pw_uid, entry->pw_gid};
}

// The monitor of a libvirt domain, through virsh.
class Virsh final : public QemuMonitor {
 public:
  Virsh(std::string domain, const std::string& uri) : domain_(std::move(domain)) {
    words_ = {"env", "LC_ALL=C", "virsh", "--quiet"};
    if (!uri.empty()) words_.push_back("--connect=" + uri);
    const auto caller = invoking_user();
    if (!caller || uri.find("/session") == uri.npos) return;
    user_ = user_named(caller->uid);
    if (user_)
      words_.insert(words_.begin() + 1, fmt::format("XDG_RUNTIME_DIR=/run/user/{}", user_->uid));
  }
  const std::string& name() const override { return domain_; }

  // Returns what virsh prints for one of its commands.
  [[nodiscard]] std::string ask(std::initializer_list<std::string> words, int file = -1) const {
    std::vector<std::string> all = words_;
    all.insert(all.end(), words);
    return output_of(all, user_, file);
  }

 protected:
  Result<void> send(const std::string& line, int file) override {
    const std::string domain = "--domain=" + domain_, command = "--cmd=" + line;
    const std::string text =
        file < 0
            ? ask({"qemu-monitor-command", domain, command})
            : ask({"qemu-monitor-command", domain, fmt::format("--pass-fds={}", file), command},
                  file);
    const auto object = text.find('{');
    if (object == text.npos) return fail("virsh: {}", error_of(text));
    answer_ = trimmed(std::string_view(text).substr(object));
    return {};
  }
  Result<std::string> receive() override { return std::exchange(answer_, {}); }

 public:
  // Returns the message in an error output of virsh, like "failed to get domain 'web02'".
  [[nodiscard]] static std::string error_of(std::string_view text) {
    std::string_view line = trimmed(text.substr(0, text.find('\n')));
    if (line.starts_with("error: ")) line.remove_prefix(7);
    return line.empty() ? "no answer; is it installed, and libvirt running?" : printable(line);
  }

 private:
  std::string domain_, answer_;
  std::vector<std::string> words_;
  std::optional<User> user_;
};

// Returns the processes whose command line gives QEMU this -uuid.
std::vector<pid_t> qemus_of_uuid(std::string_view uuid) {
  std::vector<pid_t> found;
  for (const pid_t pid : numbers_in("/proc"))
    if (option_value(command_line_of(pid), "-uuid") == uuid) found.push_back(pid);
  return found;
}

bool is_uuid(std::string_view text) {
  return text.size() == 36 && text.find_first_not_of("0123456789abcdef-") == text.npos;
}

// Parses "memory_region_ops_read : state 0".
std::optional<std::pair<std::string, bool>> event_of(const std::string& line) {
  const auto at = line.find(" : state ");
  if (at == line.npos) return std::nullopt;
  return std::pair(line.substr(0, at), line.ends_with('1'));
}

std::string in_quotes(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

// Returns the path of QEMU's QMP socket, if it has one.
std::string qmp_socket_of(const std::vector<std::string>& words) {
  std::string socket = part_of(option_value(words, "-qmp").value_or(""), "unix:");
  for (std::size_t i = 1; socket.empty() && i + 1 < words.size(); ++i) {
    if (words[i] != "-mon" || part_of(words[i + 1], "mode=") != "control") continue;
    const std::string id = part_of(words[i + 1], "chardev=");
    for (std::size_t k = 1; k + 1 < words.size(); ++k) {
      if (words[k] == "-chardev" && part_of(words[k + 1], "id=") == id)
        socket = part_of(words[k + 1], "path=");
    }
  }
  return socket;
}

Finding check_running(const SessionVm& vm, const std::vector<std::string>& words) {
  constexpr const char* kCost =
      "exits have no QEMU function and no request, only the kernel's detail";
  Finding finding{fmt::format("QEMU of {}", vm.name.empty() ? "a VM" : vm.name),
                  Level::kLimited,
                  fmt::format("PID {}", vm.pid),
                  kCost,
                  "",
                  ""};
  if (!has_log_backend(fmt::format("/proc/{}/exe", vm.pid)) && !has_log_backend(words.front())) {
    finding.found += ", built without the log backend";
    finding.advice = "build QEMU with --enable-trace-backends=log (docs/qemu.md)";
    return finding;
  }
  const std::string socket = qmp_socket_of(words);
  const bool libvirt =
      part_of(option_value(words, "-mon").value_or(""), "chardev=") == "charmonitor";
  if (!libvirt && socket.empty()) {
    finding.found += ", without a QMP socket";
    finding.advice = "start it with -qmp unix:PATH,server=on,wait=off, or by trapline record";
    return finding;
  }
  finding.level = Level::kOk;
  finding.cost.clear();
  finding.found += libvirt ? ", libvirt's" : ", with a QMP socket";
  finding.advice = libvirt ? fmt::format("trapline record --domain {} records its events", vm.name)
                           : fmt::format("trapline record --qmp {} records its events", socket);
  return finding;
}

}  // namespace

std::vector<Finding> check_running_qemus() {
  constexpr std::size_t kMost = 16;
  std::vector<Finding> findings;
  for (const SessionVm& vm : running_vms()) {
    const std::vector<std::string> words = command_line_of(vm.pid);
    const auto qemu = std::ranges::find_if(words, is_qemu);
    if (qemu != words.end() && findings.size() < kMost)
      findings.push_back(check_running(vm, {qemu, words.end()}));
  }
  return findings;
}

Result<RunningQemu> find_domain(const std::string& name, const std::string& uri) {
  auto virsh = std::make_shared<Virsh>(name, uri);
  const std::string answer = virsh->ask({"domuuid", "--domain=" + name});
  const std::string uuid(trimmed(answer));
  if (!is_uuid(uuid)) return fail("--domain {}: virsh: {}", name, Virsh::error_of(answer));
  const std::vector<pid_t> pids = qemus_of_uuid(uuid);
  if (pids.empty()) {
    return fail("--domain {}: no QEMU of it runs on this host; virsh start {}", name, name);
  }
  if (pids.size() != 1) {
    return fail("--domain {}: {} processes of this host run a QEMU with its UUID {}", name,
                pids.size(), uuid);
  }
  return RunningQemu{pids.front(), std::move(virsh)};
}

Result<RunningQemu> find_qmp(const std::string& socket, pid_t pid) {
  pid_t peer = 0;
  auto monitor = connect_qemu(socket, &peer);
  if (!monitor) return fail("--qmp {}", monitor.error().message);
  return RunningQemu{pid != 0 ? pid : peer, std::move(*monitor)};
}

std::optional<User> user_of(pid_t pid) {
  const std::string status = read_text(fmt::format("/proc/{}/status", pid)).value_or("");
  const auto effective = [&status](std::string_view key) {
    const auto ids = split(kernel_events::format_line(status, key), '\t');
    return parse_number(ids.size() > 1 ? ids[1] : "");
  };
  const auto uid = effective("Uid:"), gid = effective("Gid:");
  if (!uid || !gid || *uid == 0) return std::nullopt;
  return User{fmt::format("the QEMU of PID {}", pid), static_cast<uid_t>(*uid),
              static_cast<gid_t>(*gid)};
}

bool QemuEvents::holds_marker() const {
  std::error_code error;
  for (const auto& file : fs::directory_iterator(fmt::format("/proc/{}/fd", qemu_.pid), error)) {
    struct stat there {};
    const bool known = ::stat(file.path().c_str(), &there) == 0;
    if (known && there.st_dev == marker_.first && there.st_ino == marker_.second) return true;
  }
  return false;
}

std::vector<std::string> QemuEvents::look() {
  std::vector<std::string> missing;
  const std::string qemu = fmt::format("QEMU (PID {})", qemu_.pid);
  const auto log = qemu_.monitor->human("help log");
  if (!log) return {fmt::format("{}: {}: its events will be missing", qemu, log.error().message)};
  if (std::ranges::none_of(*log, [](const auto& line) { return line.starts_with("trace:"); })) {
    return {fmt::format(
        "{} was built without the log backend: its events will be missing (docs/qemu.md)", qemu)};
  }
  for (const std::string& pattern : patterns_) {
    std::vector<std::string> off;
    std::size_t on = 0;
    const auto lines = qemu_.monitor->human("info trace-events " + pattern);
    for (const std::string& line : lines ? *lines : std::vector<std::string>()) {
      const auto event = event_of(line);
      if (event && event->second) ++on;
      if (event && !event->second) off.push_back(event->first);
    }
    if (on + off.size() == 0) missing.push_back(fmt::format("{} has no event '{}'", qemu, pattern));
    if (on == 0 && !off.empty()) off = {pattern};  // all are off: one command for the pattern
    off_.insert(off_.end(), off.begin(), off.end());
  }
  usable_ = true;
  return missing;
}

Result<void> QemuEvents::attach(int marker) {
  if (!usable_) return {};
  struct stat status {};
  if (::fstat(marker, &status) != 0) return fail("the marker: {}", std::strerror(errno));
  marker_ = {status.st_dev, status.st_ino};
  auto file = qemu_.monitor->add_file(marker);
  if (!file) return tl::unexpected(std::move(file).error());
  const bool is_it = holds_marker();
  // QEMU opens the file anew, with its own rights.
  auto printed = is_it ? qemu_.monitor->human(fmt::format("logfile /proc/self/fd/{}", file->fd))
                       : Result<std::vector<std::string>>();
  (void)qemu_.monitor->remove_file(*file);
  if (!is_it) return fail("process {} is not the QEMU of {}", qemu_.pid, qemu_.monitor->name());
  if (!printed) return tl::unexpected(std::move(printed).error());
  attached_ = printed->empty();
  if (attached_) return {};
  const std::string profile(
      trimmed(read_text(fmt::format("/proc/{}/attr/current", qemu_.pid)).value_or("")));
  const bool confined = !profile.empty() && profile != "unconfined";
  return fail("{}{}", printable(printed->front()),
              confined ? fmt::format("; it is confined by '{}'", printable(profile)) : "");
}

Result<void> QemuEvents::switch_on() {
  if (!attached_) return {};  // the events would go into QEMU's own log
  for (const std::string& event : off_) {
    auto printed = qemu_.monitor->human(fmt::format("trace-event {} on", event));
    if (!printed) return tl::unexpected(std::move(printed).error());
    switched_.push_back(event);
  }
  return {};
}

std::vector<std::string> QemuEvents::stop() {
  const std::vector<std::string> command_line = command_line_of(qemu_.pid);
  if (command_line.empty()) return {};  // QEMU has ended
  std::vector<std::string> left;
  for (const std::string& event : std::exchange(switched_, {})) {
    if (auto done = qemu_.monitor->human(fmt::format("trace-event {} off", event)); !done)
      left.push_back(fmt::format("{} stays on: {}", event, done.error().message));
  }
  if (!std::exchange(attached_, false)) return left;
  const auto log = option_value(command_line, "-D");
  if (auto done = qemu_.monitor->human("logfile " + in_quotes(log.value_or("/dev/null"))); !done)
    left.push_back("its log is not closed: " + done.error().message);
  // QEMU closes its former log when none of its threads can write there any more.
  constexpr auto kStep = std::chrono::milliseconds(20);
  for (int tries = 0; tries < 100 && holds_marker(); ++tries) std::this_thread::sleep_for(kStep);
  if (left.empty() && holds_marker()) left.push_back("QEMU still holds the recording's marker");
  return left;
}

}  // namespace trapline::record
