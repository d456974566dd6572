// The monitor: a thread that serves one client at a time on a Unix socket.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <cstring>

#include "backend_ftrace/base/blocked_signals.h"
#include "backend_ftrace/events/output_place.h"
#include "backend_ftrace/events/runtime.h"
#include "trapline/events.h"

namespace {

int listener = -1;
int stop_pipe[2] = {-1, -1};
pthread_t thread;
std::atomic<bool> running{false};
int socket_folder = AT_FDCWD;  // the folder that holds the socket
char socket_name[sizeof(sockaddr_un::sun_path)];

void send_all(int fd, const char* text, std::size_t size) {
  while (size > 0) {
    ssize_t sent = ::send(fd, text, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == ENOTSOCK) sent = ::write(fd, text, size);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    text += sent;
    size -= static_cast<std::size_t>(sent);
  }
}

void answer(int fd, const char* text) { send_all(fd, text, std::strlen(text)); }

// Collects lines, so that thousands of them take few writes.
struct Lines {
  int fd;
  std::size_t size = 0;
  std::size_t count = 0;
  char text[8192];
};

void flush(Lines& lines) {
  send_all(lines.fd, lines.text, lines.size);
  lines.size = 0;
}

void list_one(const trapline_event* event, void* context) {
  auto& lines = *static_cast<Lines*>(context);
  if (lines.size + 256 > sizeof lines.text) flush(lines);
  const unsigned state = __atomic_load_n(event->state, __ATOMIC_RELAXED);
  const int size =
      std::snprintf(lines.text + lines.size, 256, "%.200s : state %u\n", event->name, state);
  if (size > 0) lines.size += static_cast<std::size_t>(size);
  ++lines.count;
}

void no_match(int out, const char* pattern) {
  char near[129];
  char text[512];
  trapline_events_nearest(pattern, near, sizeof near);
  std::snprintf(text, sizeof text, "error: no event matches '%.128s'%s%s%s\n", pattern,
                near[0] ? "; did you mean " : "", near, near[0] ? "?" : "");
  answer(out, text);
}

void list(int out, const char* pattern) {
  Lines lines{out, 0, 0, {}};
  trapline_events_each(pattern, list_one, &lines);
  flush(lines);
  if (lines.count == 0 && std::strcmp(pattern, "*") != 0) return no_match(out, pattern);
  answer(out, "ok\n");
}

void set(int out, const char* pattern, const char* state) {
  const bool on = std::strcmp(state, "on") == 0;
  if (!on && std::strcmp(state, "off") != 0) {
    return answer(out, "error: expected on or off after the event's name\n");
  }
  if (trapline_events_set(pattern, on) == 0) return no_match(out, pattern);
  answer(out, "ok\n");
}

void show_trace_file(int out) {
  char path[PATH_MAX];
  char text[PATH_MAX + 96];
  const trapline::TraceFileState state = trapline::trace_file_state(path, sizeof path);
  if (!state.open) return answer(out, "no trace file is open\nok\n");
  std::snprintf(
      text, sizeof text, "trace file \"%s\" %s, layout %s, %" PRIu64 " events dropped\nok\n", path,
      state.enabled ? "on" : "off", state.rfc ? "rfc" : "qemu", trapline_simple_dropped());
  answer(out, text);
}

void open_file(int out, const char* path) {
  char error[480];
  if (trapline::open_trace_file(path, error, sizeof error) == 0) return answer(out, "ok\n");
  char text[512];
  std::snprintf(text, sizeof text, "error: %s\n", error);
  answer(out, text);
}

void trace_file(int out, const char* action, const char* argument) {
  const auto is = [action](const char* word) { return std::strcmp(action, word) == 0; };
  if (action[0] == '\0') return show_trace_file(out);
  if (is("set")) return open_file(out, argument[0] != '\0' ? argument : nullptr);
  if (is("layout")) {
    if (trapline::set_trace_layout(argument)) return answer(out, "ok\n");
    return answer(out, "error: expected trace-file layout qemu or trace-file layout rfc\n");
  }
  if (!is("on") && !is("off") && !is("flush")) {
    return answer(out, "error: expected trace-file [on|off|flush|set [PATH]|layout qemu|rfc]\n");
  }
  if (!trapline_simple_is_open()) {
    if (is("on")) return open_file(out, nullptr);
    return answer(out, "error: no trace file is open; use trace-file set PATH\n");
  }
  if (!is("flush")) trapline_simple_enable(is("on"));
  trapline_simple_flush();
  answer(out, "ok\n");
}

void serve(int client) {
  char line[1024];
  std::size_t size = 0;
  for (;;) {
    pollfd ready[2] = {{client, POLLIN, 0}, {stop_pipe[0], POLLIN, 0}};
    if (::poll(ready, 2, -1) < 0 && errno != EINTR) return;
    if (ready[1].revents != 0) return;
    if (ready[0].revents == 0) continue;
    const ssize_t got = ::recv(client, line + size, sizeof line - 1 - size, 0);
    if (got <= 0) return;
    size += static_cast<std::size_t>(got);
    line[size] = '\0';
    char* begin = line;
    while (char* end = static_cast<char*>(
               std::memchr(begin, '\n', size - static_cast<std::size_t>(begin - line)))) {
      *end = '\0';
      trapline_monitor_command(begin, client);
      begin = end + 1;
    }
    size -= static_cast<std::size_t>(begin - line);
    std::memmove(line, begin, size);
    if (size == sizeof line - 1) {
      answer(client, "error: the line is too long\n");
      return;
    }
  }
}

void* run(void*) {
  for (;;) {
    pollfd ready[2] = {{listener, POLLIN, 0}, {stop_pipe[0], POLLIN, 0}};
    if (::poll(ready, 2, -1) < 0 && errno != EINTR) return nullptr;
    if (ready[1].revents != 0) return nullptr;
    if (ready[0].revents == 0) continue;
    const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) {  // without a free descriptor the connection stays, and the socket ready
      ::poll(&ready[1], 1, 100);
      continue;
    }
    const timeval patience{5, 0};  // s, because the catalogue is locked while the answer is sent
    ::setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    serve(client);
    ::close(client);
  }
}

// Makes the socket's address. For root the address goes through the folder's descriptor, since
// others could redirect a path.
bool address_of(const trapline::OutputPlace& place, sockaddr_un& address) {
  address.sun_family = AF_UNIX;
  char* const path = address.sun_path;
  constexpr std::size_t kSize = sizeof address.sun_path;
  const int size = place.folder ? std::snprintf(path, kSize, "/proc/self/fd/%d/%s",
                                                place.folder.get(), place.name)
                                : std::snprintf(path, kSize, "%s", place.name);
  return size > 0 && static_cast<std::size_t>(size) < kSize;
}

// Removes a socket file on which nobody listens; leaves any other file alone.
bool clear_stale(const trapline::OutputPlace& place, const sockaddr_un& address) {
  struct stat status {};
  if (::fstatat(place.at(), place.name, &status, AT_SYMLINK_NOFOLLOW) != 0) return true;
  if (!S_ISSOCK(status.st_mode)) return false;
  // Only a refused connection proves that nobody listens: a listener may be busy or belong to
  // another user.
  const trapline::UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool is_stale =
      ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno == ECONNREFUSED;
  return is_stale && ::unlinkat(place.at(), place.name, 0) == 0;
}

int give_up(const char* path, const char* reason, char* error, std::size_t error_size) {
  if (error != nullptr) std::snprintf(error, error_size, "monitor socket %s: %s", path, reason);
  if (listener >= 0) ::close(listener);
  listener = -1;
  running = false;
  return -1;
}

}  // namespace

extern "C" {

void trapline_monitor_command(const char* line, int out) {
  char copy[1024];
  std::snprintf(copy, sizeof copy, "%s", line);
  char* save = nullptr;
  const char* words[3] = {"", "", ""};
  for (int i = 0; i < 3; ++i) {
    const char* word = ::strtok_r(i == 0 ? copy : nullptr, i == 2 ? "\r" : " \t\r", &save);
    if (word == nullptr) break;
    words[i] = word;
  }
  if (std::strcmp(words[0], "info") == 0 && std::strcmp(words[1], "trace-events") == 0) {
    list(out, words[2][0] != '\0' ? words[2] : "*");
  } else if (std::strcmp(words[0], "trace-event") == 0) {
    set(out, words[1], words[2]);
  } else if (std::strcmp(words[0], "trace-file") == 0) {
    trace_file(out, words[1], words[2]);
  } else {
    answer(out,
           "error: expected info trace-events [PATTERN], trace-event PATTERN on|off, or "
           "trace-file [on|off|flush|set [PATH]|layout qemu|rfc]\n");
  }
}

int trapline_monitor_start(const char* path, char* error, std::size_t error_size) {
  if (running.exchange(true)) {
    if (error != nullptr) std::snprintf(error, error_size, "a monitor is already running");
    return -1;
  }
  sockaddr_un address{};
  trapline::OutputPlace place;
  const bool fits = std::strlen(path) < sizeof address.sun_path;
  if (fits && !trapline::find_output_place(path, place)) {
    const char* link = errno == ELOOP ? "a link in its path is not followed" : nullptr;
    return give_up(path, link != nullptr ? link : std::strerror(errno), error, error_size);
  }
  if (!fits || !address_of(place, address)) {
    return give_up(path, "the path is too long for a socket", error, error_size);
  }
  if (!clear_stale(place, address)) {
    return give_up(path, "there is a file, or a program listens already", error, error_size);
  }
  listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // Only the same user may switch events: bind() gives the file the socket's own mode.
  if (listener < 0 || ::fchmod(listener, 0600) != 0 ||
      ::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener, 4) != 0 || ::pipe2(stop_pipe, O_CLOEXEC) != 0) {
    return give_up(path, std::strerror(errno), error, error_size);
  }
  const trapline::BlockedSignals blocked;
  const int failed = ::pthread_create(&thread, nullptr, run, nullptr);
  if (failed != 0) return give_up(path, std::strerror(failed), error, error_size);
  std::snprintf(socket_name, sizeof socket_name, "%s", place.name);
  socket_folder = place.folder ? place.folder.release() : AT_FDCWD;
  return 0;
}

void trapline_monitor_stop(void) {
  if (!running.load() || listener < 0) return;
  if (::write(stop_pipe[1], "x", 1) < 0) return;
  ::pthread_join(thread, nullptr);
  for (int* fd : {&listener, &stop_pipe[0], &stop_pipe[1]}) {
    ::close(*fd);
    *fd = -1;
  }
  ::unlinkat(socket_folder, socket_name, 0);
  if (socket_folder >= 0) ::close(socket_folder);
  socket_folder = AT_FDCWD;
  running = false;
}

}  // extern "C"
