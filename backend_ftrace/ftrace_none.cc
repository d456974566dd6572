// trapline/ftrace.h for systems without ftrace: the functions exist and do nothing. The first
// attempt to open a marker prints one message.
#include <atomic>
#include <cstdio>

#include "trapline/ftrace.h"

namespace {

trapline_ftrace* refuse(char* error, std::size_t size) {
  static constexpr const char* kMessage = "ftrace exists on Linux only; events do not reach it";
  static std::atomic<bool> told{false};
  if (error != nullptr && size > 0) std::snprintf(error, size, "%s", kMessage);
  if (!told.exchange(true)) std::fprintf(stderr, "trapline: %s\n", kMessage);
  return nullptr;
}

}  // namespace

extern "C" {

trapline_ftrace* trapline_ftrace_open(const trapline_ftrace_options*, char* error,
                                      std::size_t size) {
  return refuse(error, size);
}
trapline_ftrace* trapline_ftrace_from_fd(int, char* error, std::size_t size) {
  return refuse(error, size);
}
void trapline_ftrace_close(trapline_ftrace*) {}
ssize_t trapline_ftrace_write(trapline_ftrace*, const char*, std::size_t) { return 0; }
ssize_t trapline_ftrace_printf(trapline_ftrace*, const char*, ...) { return 0; }
ssize_t trapline_ftrace_vprintf(trapline_ftrace*, const char*, va_list) { return 0; }
void trapline_ftrace_get_counts(const trapline_ftrace*, trapline_ftrace_counts* counts) {
  *counts = {};
}
int trapline_ftrace_fd(const trapline_ftrace*) { return -1; }
int trapline_ftrace_sync(trapline_ftrace*, unsigned) { return -1; }

}  // extern "C"
