#include "backend_ftrace/base/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"

#if !defined(TRAPLINE_LIBEXECDIR)  // set by our CMake files; not by other builds
#define TRAPLINE_LIBEXECDIR "/usr/libexec"
#endif

extern char** environ;

namespace trapline {
namespace {

using std::chrono::milliseconds;

std::string& reason_against() {
  static std::string reason;
  return reason;
}

// Returns the file that this code was loaded from: the program, or the plugin in QEMU.
std::string own_file() {
  const auto maps = read_text("/proc/self/maps");
  if (!maps) return {};
  const auto here = reinterpret_cast<std::uintptr_t>(&own_file);
  std::string_view rest = *maps;
  while (!rest.empty()) {
    std::string_view line = take_line(rest);  // START-END perms offset device inode   /path
    std::uintptr_t start = 0, stop = 0;
    if (!take_number_to(line, start, '-', 16) || !take_number(line, stop, 16)) continue;
    const auto slash = line.find('/');
    if (here >= start && here < stop && slash != line.npos) return std::string(line.substr(slash));
  }
  return {};
}

class SpawnSettings {
 public:
  SpawnSettings() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  // Makes the socket the worker's standard input; the worker closes all other descriptors itself.
  // Resets the signals, since QEMU blocks some in its threads.
  void give(int socket) {
    posix_spawn_file_actions_adddup2(&actions_, socket, 0);
    posix_spawn_file_actions_addopen(&actions_, 1, "/dev/null", O_WRONLY, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers report on stderr
    posix_spawn_file_actions_adddup2(&actions_, 1, 2);
#endif
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  int spawn(pid_t& pid, const std::string& program, std::vector<std::string> words,
            std::vector<std::string> environment) {
    return ::posix_spawn(&pid, program.c_str(), &actions_, &attributes_, pointers(words).data(),
                         pointers(environment).data());
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> list;
    for (std::string& word : words) list.push_back(word.data());
    list.push_back(nullptr);
    return list;
  }
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

// Returns the environment of the worker: only the library path, and the options of sanitizers and
// coverage.
std::vector<std::string> worker_environment() {
  std::vector<std::string> environment;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  for (char** word = environ; *word != nullptr; ++word) environment.emplace_back(*word);
#else
  if (const char* path = ::secure_getenv("LD_LIBRARY_PATH"))
    environment.push_back(fmt::format("LD_LIBRARY_PATH={}", path));
#endif
  return environment;
}

std::string how_it_ended(int status, std::uint64_t memory) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoMemoryStatus)
    return fmt::format("needs more than {:.0f} MiB of memory", mib(memory));
  if (WIFEXITED(status)) return fmt::format("ended (status {})", WEXITSTATUS(status));
  switch (WTERMSIG(status)) {
    case SIGSYS:
      return "tried what it must not (SIGSYS)";
    case SIGXCPU:
      return "needs too much time";
    case SIGKILL:
      return "was killed";
    default:
      return fmt::format("crashed ({})",
                         ::sigabbrev_np(WTERMSIG(status)) == nullptr
                             ? "unknown signal"
                             : "SIG" + std::string(::sigabbrev_np(WTERMSIG(status))));
  }
}

tl::unexpected<Error> failed_on(const std::string& subject, const std::string& how) {
  return fail(ErrorKind::kDamaged,
              "{}: cannot be read: the worker process that parses it {}; the file is damaged, or "
              "made to do harm: find out where it comes from",
              subject, how);
}

}  // namespace

WorkerLimits WorkerLimits::for_file(std::uint64_t size) {
  constexpr std::uint64_t kBytesASecond = 8u << 20;
  const auto seconds = static_cast<std::int64_t>(size / kBytesASecond) + 3;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {0, milliseconds(20'000 * seconds), std::chrono::seconds(0)};
#else
  return {(192u << 20) + 4 * size, milliseconds(1000 * seconds), std::chrono::seconds(seconds + 1)};
#endif
}

void Worker::forbid(std::string reason) { reason_against() = std::move(reason); }
const std::string& Worker::forbidden() { return reason_against(); }

// Returns $TRAPLINE_WORKER if set. Otherwise looks beside this code's own file, then in the
// installation that the file belongs to, even if it was moved (bin/trapline or
// lib/…/trapline/libtrapline_plugin.so, with libexec/trapline/trapline-worker). Otherwise returns
// the place that was configured. No other folder is tried, since it may be somebody else's.
std::string Worker::program() {
  if (const char* named = ::secure_getenv("TRAPLINE_WORKER"); named != nullptr && *named != '\0')
    return named;
  constexpr std::string_view kInstalled = "libexec/trapline/trapline-worker";
  const std::filesystem::path folder = std::filesystem::path(own_file()).parent_path();
  std::vector<std::filesystem::path> places = {folder / "trapline-worker"};
  const auto above = folder.parent_path();
  if (folder.filename() == "bin") places.push_back(above / kInstalled);
  if (folder.filename() == "trapline" && above.filename().string().starts_with("lib"))
    places.push_back(above.parent_path() / kInstalled);
  if (folder.filename() == "trapline" && above.parent_path().filename() == "lib")
    places.push_back(above.parent_path().parent_path() / kInstalled);
  for (const auto& place : places) {
    if (place.is_absolute() && is_file(place)) return place;
  }
  return TRAPLINE_LIBEXECDIR "/trapline/trapline-worker";
}

Result<Worker> Worker::start(std::string_view task, std::string subject,
                             const WorkerLimits& limits) {
  if (!forbidden().empty()) return fail("{}: cannot be read here: {}", subject, forbidden());
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail("socketpair: {}", std::strerror(errno));
  UniqueFd own(ends[0]);
  UniqueFd its(ends[1]);
  // dup2 of 0 to 0 would leave close-on-exec set.
  if (its.get() == 0) its.reset(::fcntl(0, F_DUPFD_CLOEXEC, 3));
  const std::string path = program();
  SpawnSettings settings;
  settings.give(its.get());
  pid_t pid = -1;
  std::vector<std::string> words = {"trapline-worker", std::string(task),
                                    std::to_string(limits.memory),
                                    std::to_string(limits.life.count())};
  if (::secure_getenv("TRAPLINE_WORKER_UNCONFINED") != nullptr) words.emplace_back("unconfined");
  const int error = settings.spawn(pid, path, std::move(words), worker_environment());
  if (error != 0)
    return fail(
        "{}: cannot be read: {}: {}; it is installed with trapline and with the plugin, or "
        "name it in TRAPLINE_WORKER",
        subject, path, std::strerror(error));
  return Worker(pid, std::move(own), std::move(subject), limits);
}

Worker::Worker(Worker&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      socket_(std::move(other.socket_)),
      subject_(std::move(other.subject_)),
      limits_(other.limits_),
      inbox_(std::move(other.inbox_)),
      timed_out_(other.timed_out_) {}

Worker& Worker::operator=(Worker&& other) noexcept {
  if (this == &other) return *this;
  end();
  pid_ = std::exchange(other.pid_, -1);
  socket_ = std::move(other.socket_);
  subject_ = std::move(other.subject_);
  limits_ = other.limits_;
  inbox_ = std::move(other.inbox_);
  timed_out_ = other.timed_out_;
  return *this;
}

Worker::~Worker() { end(); }

void Worker::end() {
  socket_.reset();
  if (pid_ < 0) return;
  (void)::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

// Returns the Error after the socket has ended: the worker has ended, or it closed the socket and
// is killed here.
tl::unexpected<Error> Worker::lost() {
  if (pid_ < 0) return failed_on(subject_, "has ended");
  int status = 0;
  pid_t ended = 0;
  for (int i = 0; i < 200 && (ended = ::waitpid(pid_, &status, WNOHANG)) == 0; ++i) {
    ::poll(nullptr, 0, 1);
  }
  bool known = ended == pid_;
  if (ended == 0) {
    // The worker still runs or, on a busy machine, is about to end; the signal does not change the
    // exit status of a process that is already ending.
    (void)::kill(pid_, SIGKILL);
    while ((ended = ::waitpid(pid_, &status, 0)) < 0 && errno == EINTR) {
    }
    known = ended == pid_ && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  if (ended == pid_) pid_ = -1;
  end();
  return failed_on(subject_, known ? how_it_ended(status, limits_.memory) : "has ended");
}

tl::unexpected<Error> Worker::impossible(std::string_view answer) {
  end();
  return failed_on(subject_, fmt::format("gave an impossible answer ({})", answer));
}

std::chrono::nanoseconds Worker::busy() const {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Waits until the socket is ready for `events`. The limit counts the worker's processor time, since
// on a busy host a sound worker may wait long for a processor. A worker that uses none has ten
// times as long; the wait is in slices, so that time in which the caller was stopped does not
// count.
Result<void> Worker::wait_for(short events, Patience& patience) {
  constexpr milliseconds kSlice{50};
  constexpr int kMostWaiting = 10;
  for (;;) {
    pollfd one{socket_.get(), events, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(kSlice.count()));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail("poll: {}", std::strerror(errno));
    patience.waited += kSlice;
    if (!patience.start) patience.start = busy();  // not before: most answers come at once
    if (busy() - *patience.start >= limits_.answer ||
        patience.waited >= kMostWaiting * limits_.answer)
      break;
  }
  timed_out_ = true;
  const auto text = fmt::format("took longer than {:.3g} s",
                                std::chrono::duration<double>(limits_.answer).count());
  end();
  return failed_on(subject_, text);
}

Result<void> Worker::send(MessageKind kind, std::span<const std::byte> payload, int descriptor) {
  if (pid_ < 0) return failed_on(subject_, "has ended");
  timed_out_ = false;
  MessageHead head{kind, static_cast<std::uint32_t>(payload.size())};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  Patience patience;
  std::size_t sent = 0;
  while (sent < sizeof head + payload.size()) {
    iovec parts[2] = {{&head, sizeof head},
                      {const_cast<std::byte*>(payload.data()), payload.size()}};
    for (std::size_t skip = sent; iovec & part : parts) {
      const std::size_t of_part = std::min(skip, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + of_part;
      part.iov_len -= of_part;
      skip -= of_part;
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    if (descriptor >= 0 && sent == 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* with = CMSG_FIRSTHDR(&message);
      *with = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
      std::memcpy(CMSG_DATA(with), &descriptor, sizeof descriptor);
    }
    const ssize_t done = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done >= 0) {
      sent += static_cast<std::size_t>(done);
    } else if (errno == EAGAIN) {
      if (auto ready = wait_for(POLLOUT, patience); !ready) return ready;
    } else if (errno != EINTR) {
      return lost();
    }
  }
  return {};
}

// Reads until inbox_ holds at least `size` bytes, and takes all that is available.
Result<void> Worker::fill(std::size_t size) {
  constexpr std::size_t kAtOnce = 16 * 1024;
  Patience patience;
  while (inbox_.size() < size) {
    std::byte bytes[kAtOnce];
    const ssize_t got = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    const int error = errno;
    inbox_.insert(inbox_.end(), bytes, bytes + std::max<ssize_t>(got, 0));
    if (got == 0 || (got < 0 && error != EINTR && error != EAGAIN)) return lost();
    if (got > 0 || error == EINTR) continue;
    if (auto ready = wait_for(POLLIN, patience); !ready) return ready;
  }
  return {};
}

Result<Worker::Message> Worker::receive() {
  if (pid_ < 0) return failed_on(subject_, "has ended");
  timed_out_ = false;
  MessageHead head{};
  if (auto done = fill(sizeof head); !done) return tl::unexpected(std::move(done).error());
  std::memcpy(&head, inbox_.data(), sizeof head);
  if (head.size > kLargestMessage) return impossible("its length");
  const std::size_t whole = sizeof head + head.size;
  if (auto done = fill(whole); !done) return tl::unexpected(std::move(done).error());
  Message message{
      head.kind,
      {inbox_.begin() + sizeof head, inbox_.begin() + static_cast<std::ptrdiff_t>(whole)}};
  inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<std::ptrdiff_t>(whole));
  if (message.kind != MessageKind::kRefused) return message;
  constexpr std::size_t kLongestReason = 300;
  MessageReader reader(message.payload);
  const auto kind = reader.number<std::uint32_t>().value_or(0);
  const auto text = reader.text().value_or("");
  const bool is_kind = kind >= static_cast<std::uint32_t>(ErrorKind::kRuntime) &&
                       kind <= static_cast<std::uint32_t>(ErrorKind::kDamaged);
  return fail(is_kind ? static_cast<ErrorKind>(kind) : ErrorKind::kDamaged, "{}: {}", subject_,
              printable(text.substr(0, kLongestReason)));
}

}  // namespace trapline
