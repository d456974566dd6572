// The marker writer (trapline/ftrace.h). It does not need the C++ runtime library.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "backend_ftrace/format_text.h"
#include "backend_ftrace/sync.h"
#include "backend_ftrace/tracefs.h"
#include "trapline/ftrace.h"

// Written events are not counted: an atomic counter that all threads increment would cost more than
// an event's overhead may be.
struct trapline_ftrace {
  int fd = -1;
  std::atomic<std::uint64_t> cut{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<int> last_errno{0};
};

namespace {

trapline_ftrace* make(int fd) {
  void* memory = std::malloc(sizeof(trapline_ftrace));
  if (memory == nullptr) {
    ::close(fd);
    return nullptr;
  }
  auto* marker = ::new (memory) trapline_ftrace;
  marker->fd = fd;
  return marker;
}

[[gnu::cold, gnu::noinline]] void count_slow(trapline_ftrace* marker, ssize_t result, int cause) {
  if (result >= 0) {
    marker->cut.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  marker->refused.fetch_add(1, std::memory_order_relaxed);
  marker->last_errno.store(cause, std::memory_order_relaxed);
}

// Writes once. A short count means that the kernel cut the text; writing the rest would make a
// second event.
ssize_t write_once(trapline_ftrace* marker, const char* text, std::size_t size, bool is_cut) {
  const int saved = errno;
  ssize_t result = -1;
  do {
    result = ::write(marker->fd, text, size);
  } while (result < 0 && errno == EINTR);
  if (result != static_cast<ssize_t>(size) || is_cut) [[unlikely]]
    count_slow(marker, result, errno);
  errno = saved;
  return result;
}

}  // namespace

extern "C" {

trapline_ftrace* trapline_ftrace_open(const trapline_ftrace_options* options, char* error,
                                      std::size_t error_size) {
  const char* instance = options != nullptr ? options->instance : nullptr;
  const char* root = options != nullptr ? options->tracefs : nullptr;
  const int fd =
      trapline::tracefs::open_file(root, instance, "trace_marker", O_WRONLY, error, error_size);
  return fd < 0 ? nullptr : make(fd);
}

trapline_ftrace* trapline_ftrace_from_fd(int fd, char* error, std::size_t error_size) {
  if (error != nullptr && error_size > 0) error[0] = '\0';
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  const int mode = own < 0 ? -1 : ::fcntl(own, F_GETFL);
  if (own < 0 || mode < 0 || (mode & O_ACCMODE) == O_RDONLY) {
    if (error != nullptr) {
      std::snprintf(error, error_size,
                    "descriptor %d: %s; hand over a trace_marker opened for "
                    "writing",
                    fd, own < 0 ? std::strerror(errno) : "not open for writing");
    }
    if (own >= 0) ::close(own);
    return nullptr;
  }
  return make(own);
}

void trapline_ftrace_close(trapline_ftrace* marker) {
  if (marker == nullptr) return;
  ::close(marker->fd);
  std::free(marker);
}

ssize_t trapline_ftrace_write(trapline_ftrace* marker, const char* text, std::size_t size) {
  if (marker == nullptr || size == 0) return 0;
  const std::size_t kept = std::min<std::size_t>(size, TRAPLINE_FTRACE_TEXT_MAX);
  return write_once(marker, text, kept, kept != size);
}

ssize_t trapline_ftrace_vprintf(trapline_ftrace* marker, const char* format, va_list arguments) {
  if (marker == nullptr) return 0;
  char text[TRAPLINE_FTRACE_TEXT_MAX];
  const int saved = errno;
  const int wanted = trapline::format_text(text, sizeof text, format, arguments);
  errno = saved;
  if (wanted <= 0) return 0;
  const auto size = static_cast<std::size_t>(wanted);
  if (size < sizeof text) [[likely]]
    return write_once(marker, text, size, false);
  return write_once(marker, text, sizeof text - 1, true);
}

ssize_t trapline_ftrace_printf(trapline_ftrace* marker, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const ssize_t result = trapline_ftrace_vprintf(marker, format, arguments);
  va_end(arguments);
  return result;
}

void trapline_ftrace_get_counts(const trapline_ftrace* marker, trapline_ftrace_counts* counts) {
  *counts = {};
  if (marker == nullptr) return;
  counts->cut = marker->cut.load(std::memory_order_relaxed);
  counts->refused = marker->refused.load(std::memory_order_relaxed);
  counts->last_errno = marker->last_errno.load(std::memory_order_relaxed);
}

int trapline_ftrace_fd(const trapline_ftrace* marker) {
  return marker == nullptr ? -1 : marker->fd;
}

int trapline_ftrace_sync(trapline_ftrace* marker, unsigned tries) {
  if (marker == nullptr) return -1;
  trapline::SyncSeries series(tries);
  char text[trapline::kMaxSyncText];
  bool good = true;
  while (const std::size_t size = series.next(text)) {
    const ssize_t taken = write_once(marker, text, size, false);
    series.written();
    good = good && taken == static_cast<ssize_t>(size);
  }
  return good ? 0 : -1;
}

}  // extern "C"
