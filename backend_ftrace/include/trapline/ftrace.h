/* Puts a program's events among the kernel's by writing text into ftrace's trace_marker.
 *
 * Guarantees of the write functions:
 * - one write(2) per event, of exactly the bytes that were formatted: one event in the trace;
 * - text is formatted on the stack; no allocation, no lock; errno is preserved;
 * - async-signal-safe as far as the C library's vsnprintf is (glibc's is, for integers, pointers
 * and strings); safe from any number of threads and across fork (the child shares the descriptor
 * and counts on its own);
 * - text beyond TRAPLINE_FTRACE_TEXT_MAX bytes, or beyond what the kernel keeps (4,054 bytes on
 *   Linux 6.18, about 1,000 before 6.8), is cut and counted, never split into a second event;
 * - a write that the kernel refuses (tracing off, instance removed, descriptor closed) is counted;
 *   the program goes on.
 *
 * Every function accepts a NULL marker and then does nothing. On systems other than Linux, opening
 * fails with a message and every other function does nothing.
 */
#ifndef TRAPLINE_FTRACE_H
#define TRAPLINE_FTRACE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#if defined(__GNUC__)
#define TRAPLINE_API __attribute__((visibility("default")))
#define TRAPLINE_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TRAPLINE_API
#define TRAPLINE_PRINTF(text, first)
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TRAPLINE_FTRACE_TEXT_MAX 4096

typedef struct trapline_ftrace trapline_ftrace;

struct trapline_ftrace_options {
  const char* instance; /* NULL: the top-level buffer; a name: instances/NAME, which must exist */
  const char* tracefs;  /* NULL: search for tracefs; a path: where tracefs is mounted */
};

struct trapline_ftrace_counts {
  uint64_t cut;     /* events whose end was cut off */
  uint64_t refused; /* events that the kernel rejected */
  int last_errno;   /* errno of the last rejected event; 0: none */
};

/* Opens trace_marker in /sys/kernel/tracing, else in the tracefs that /proc/mounts names, else in
 * debugfs. Call it before dropping privileges. `options` may be NULL. Returns NULL on failure and
 * writes the cause and the fix to `error` (which may be NULL), always NUL-terminated. */
TRAPLINE_API trapline_ftrace* trapline_ftrace_open(const struct trapline_ftrace_options* options,
                                                   char* error, size_t error_size);

/* Makes a marker from a descriptor of a trace_marker that another program opened, for example the
 * recorder. The descriptor is duplicated; the caller keeps its own. Fails as
 * trapline_ftrace_open(). */
TRAPLINE_API trapline_ftrace* trapline_ftrace_from_fd(int fd, char* error, size_t error_size);

TRAPLINE_API void trapline_ftrace_close(trapline_ftrace* marker);

/* Writes one event. Returns how many bytes the kernel took; -1 when it rejected the event (see the
 * counts). */
TRAPLINE_API ssize_t trapline_ftrace_write(trapline_ftrace* marker, const char* text, size_t size);
TRAPLINE_API ssize_t trapline_ftrace_printf(trapline_ftrace* marker, const char* format, ...)
    TRAPLINE_PRINTF(2, 3);
TRAPLINE_API ssize_t trapline_ftrace_vprintf(trapline_ftrace* marker, const char* format,
                                             va_list arguments) TRAPLINE_PRINTF(2, 0);

TRAPLINE_API void trapline_ftrace_get_counts(const trapline_ftrace* marker,
                                             struct trapline_ftrace_counts* counts);

/* Returns the descriptor, so that the caller can pass it to another program; -1 for NULL. */
TRAPLINE_API int trapline_ftrace_fd(const trapline_ftrace* marker);

/* Writes a series of sync records (docs/formats/sync.md) with `tries` brackets; 0 means 16. Readers
 * use the narrowest bracket. Returns 0, or -1 when the kernel rejected a record. */
TRAPLINE_API int trapline_ftrace_sync(trapline_ftrace* marker, unsigned tries);

#ifdef __cplusplus
}
#endif

#endif
