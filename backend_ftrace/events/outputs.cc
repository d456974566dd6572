// Opens the outputs of all backends, and writes those of ftrace (one trace_marker for the whole
// program), log and syslog.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <syslog.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "backend_ftrace/events/output_place.h"
#include "backend_ftrace/events/runtime.h"
#include "backend_ftrace/format_text.h"
#include "trapline/events.h"

namespace {

std::atomic<trapline_ftrace*> default_marker{nullptr};
std::atomic<bool> told{false};
char marker_error[512];
std::atomic<int> log_fd{STDERR_FILENO};
std::atomic<bool> log_prefix{false};

bool is_set(const char* name) {
  const char* value = ::secure_getenv(name);
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

void open_marker() {
  if (default_marker.load(std::memory_order_acquire) != nullptr) return;
  trapline_ftrace* marker = nullptr;
  if (const char* fd = ::secure_getenv("TRAPLINE_FTRACE_FD"); fd != nullptr && *fd != '\0') {
    char* end = nullptr;
    const long number = std::strtol(fd, &end, 10);
    if (*end == '\0' && number >= 0 && number <= INT_MAX) {
      marker = trapline_ftrace_from_fd(static_cast<int>(number), marker_error, sizeof marker_error);
    } else {
      std::snprintf(marker_error, sizeof marker_error,
                    "TRAPLINE_FTRACE_FD=%s is not the number of a descriptor", fd);
    }
  } else {
    const char* instance = ::secure_getenv("TRAPLINE_FTRACE_INSTANCE");
    const trapline_ftrace_options options{instance, nullptr};
    marker = trapline_ftrace_open(&options, marker_error, sizeof marker_error);
  }
  default_marker.store(marker, std::memory_order_release);
}

// Reports a missing marker once, and only in a program that has switched an event on.
[[gnu::cold, gnu::noinline]] void tell_once_slow() {
  if (told.exchange(true)) return;
  const int saved = errno;
  char text[640];
  const int size = std::snprintf(text, sizeof text, "trapline: events do not reach ftrace: %s\n",
                                 marker_error[0] != '\0' ? marker_error : "no marker is open");
  if (size > 0 && ::write(STDERR_FILENO, text, static_cast<std::size_t>(size)) < 0) errno = 0;
  errno = saved;
}

bool is_descriptor(const char* path) {
  if (std::strcmp(path, "/dev/stdout") == 0 || std::strcmp(path, "/dev/stderr") == 0) return true;
  if (std::strncmp(path, "/dev/fd/", 8) != 0 || path[8] == '\0') return false;
  return path[8 + std::strspn(path + 8, "0123456789")] == '\0';
}

// Opens the log. Follows a link only for /dev/stdout, /dev/stderr and /dev/fd/N, since another user
// may have made any other link.
int open_log_path(const char* path, const char** reason) {
  if (is_descriptor(path)) {
    const int fd = ::open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) *reason = std::strerror(errno);
    return fd;
  }
  const int fd = trapline::open_output(path, O_WRONLY | O_APPEND, reason);
  struct stat status {};
  if (fd < 0) return -1;
  const bool is_known = ::fstat(fd, &status) == 0;
  const bool is_stream = S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode);
  // A slow terminal or pipe makes the writer wait, as usual.
  if (is_known && (S_ISREG(status.st_mode) || is_stream) && ::fcntl(fd, F_SETFL, O_APPEND) == 0) {
    return fd;
  }
  ::close(fd);
  *reason = "neither a file nor a character device";
  return -1;
}

void open_log() {
  if (const char* path = ::secure_getenv("TRAPLINE_LOG"); path != nullptr && *path != '\0') {
    const char* reason = "";
    if (const int fd = open_log_path(path, &reason); fd >= 0) {
      log_fd = fd;
    } else {
      std::fprintf(stderr, "trapline: %s: %s; the log goes to standard error\n", path, reason);
    }
  }
  log_prefix = is_set("TRAPLINE_LOG_PREFIX");
}

std::atomic<bool> layout_rfc{false};

// Opens TRAPLINE_TRACE_FILE, else trace-PID if the environment switched events on, as QEMU does.
void open_simple(bool switched_on) {
  if (const char* layout = ::secure_getenv("TRAPLINE_TRACE_LAYOUT");
      layout != nullptr && *layout != '\0' && !trapline::set_trace_layout(layout)) {
    std::fprintf(stderr, "trapline: TRAPLINE_TRACE_LAYOUT: '%s' is not a layout; use qemu or rfc\n",
                 layout);
  }
  const char* path = ::secure_getenv("TRAPLINE_TRACE_FILE");
  if (path == nullptr ? !switched_on : *path == '\0') return;
  if (trapline_simple_is_open()) return;
  char error[512];
  if (trapline::open_trace_file(path, error, sizeof error) != 0) {
    std::fprintf(stderr, "trapline: %s%s\n", error,
                 path == nullptr ? "; TRAPLINE_TRACE_FILE=PATH names another" : "");
  }
}

}  // namespace

namespace trapline {

void prepare_outputs(std::uint32_t backends, bool switched_on) {
  static std::atomic<std::uint32_t> prepared{0};
  static std::atomic<bool> simple_on{false};
  std::uint32_t fresh = backends & ~prepared.fetch_or(backends);
  // The first group with the simple backend may have no event on, and a later group may.
  if ((backends & TRAPLINE_BACKEND_SIMPLE) != 0 && switched_on && !simple_on.exchange(true)) {
    fresh |= TRAPLINE_BACKEND_SIMPLE;
  }
  if ((fresh & TRAPLINE_BACKEND_FTRACE) != 0) open_marker();
  if ((fresh & TRAPLINE_BACKEND_LOG) != 0) open_log();
  if ((fresh & TRAPLINE_BACKEND_SYSLOG) != 0) ::openlog(nullptr, LOG_PID, LOG_DAEMON);
  if ((fresh & TRAPLINE_BACKEND_SIMPLE) != 0) open_simple(switched_on);
  static std::atomic<bool> monitor{false};
  const char* path = ::secure_getenv("TRAPLINE_MONITOR");
  if (path != nullptr && *path != '\0' && !monitor.exchange(true)) {
    char error[512];
    if (trapline_monitor_start(path, error, sizeof error) != 0) {
      std::fprintf(stderr, "trapline: %s\n", error);
    }
  }
}

bool set_trace_layout(const char* name) {
  const bool rfc = std::strcmp(name, "rfc") == 0;
  if (!rfc && std::strcmp(name, "qemu") != 0) return false;
  layout_rfc = rfc;
  return true;
}

int open_trace_file(const char* path, char* error, std::size_t error_size) {
  trapline_simple_options options{};
  options.path = path;
  options.rfc = layout_rfc;
  options.flush_on_signals = true;
  return trapline_simple_switch(&options, error, error_size);
}

}  // namespace trapline

extern "C" {

int trapline_ftrace_set_default(const trapline_ftrace_options* options, char* error,
                                std::size_t error_size) {
  trapline_ftrace* marker = trapline_ftrace_open(options, error, error_size);
  if (marker == nullptr) return -1;
  // The previous marker stays open: another thread may be writing into it.
  default_marker.store(marker, std::memory_order_release);
  return 0;
}

trapline_ftrace* trapline_ftrace_default(void) {
  return default_marker.load(std::memory_order_acquire);
}

void trapline_ftrace_event(const char* format, ...) {
  trapline_ftrace* marker = default_marker.load(std::memory_order_relaxed);
  if (marker == nullptr) [[unlikely]]
    return tell_once_slow();
  va_list arguments;
  va_start(arguments, format);
  trapline_ftrace_vprintf(marker, format, arguments);
  va_end(arguments);
}

void trapline_log_set(int fd, bool with_thread_and_time) {
  log_fd = fd < 0 ? STDERR_FILENO : fd;
  log_prefix = with_thread_and_time;
}

void trapline_log_event(const char* format, ...) {
  const int saved = errno;
  char text[TRAPLINE_FTRACE_TEXT_MAX];
  std::size_t at = 0;
  if (log_prefix.load(std::memory_order_relaxed)) {
    timeval now{};
    ::gettimeofday(&now, nullptr);
    at = static_cast<std::size_t>(std::snprintf(
        text, sizeof text, "%ld@%ld.%06ld:", ::syscall(SYS_gettid), now.tv_sec, now.tv_usec));
  }
  va_list arguments;
  va_start(arguments, format);
  const int wanted = trapline::format_text(text + at, sizeof text - at, format, arguments);
  va_end(arguments);
  if (wanted > 0) {
    at += static_cast<std::size_t>(wanted);
    if (at > sizeof text - 1) at = sizeof text - 1;
    text[at++] = '\n';  // replaces the NUL
    if (::write(log_fd.load(std::memory_order_relaxed), text, at) < 0) errno = 0;
  }
  errno = saved;
}

void trapline_syslog_event(const char* format, ...) {
  const int saved = errno;
  va_list arguments;
  va_start(arguments, format);
  ::vsyslog(LOG_INFO, format, arguments);
  va_end(arguments);
  errno = saved;
}

}  // extern "C"
