/* Events of a program beside the kernel's: text written into ftrace's trace_marker.
 *
 * Guarantees of the write functions:
 * - one write(2) per event, of exactly the bytes that were formatted: one event in the trace;
 * - text is formatted on the stack; no allocation, no lock; errno is preserved;
 * - async-signal-safe as far as the C library's vsnprintf is (glibc's is, for integers, pointers
 * and strings); safe from any number of threads and across fork (the child shares the descriptor
 * and counts on its own);
 * - text beyond TRAPLINE_FTRACE_TEXT_MAX bytes, or beyond what the kernel keeps (4,054 bytes on
 *   Linux 6.18, about 1,000 before 6.8), is cut and counted, never split into a second event;
 * - a write that the kernel refuses (tracing off, instance removed, descriptor closed) is counted
 *   and the program runs on.
 *
 * A NULL marker is accepted everywhere and does nothing. Outside Linux opening fails with a message
 * and everything else does nothing.
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
  const char* tracefs;  /* NULL: found by itself; a path: where tracefs is mounted */
};

struct trapline_ftrace_counts {
  uint64_t cut;     /* events whose end was cut off */
  uint64_t refused; /* events that the kernel did not take */
  int last_errno;   /* of the last refusal; 0: none */
};

/* Opens trace_marker: at /sys/kernel/tracing, else where /proc/mounts says, else under debugfs. Do
 * it before dropping privileges. NULL on failure, with the cause and the fix in `error` (which may
 * be NULL), always terminated. `options` may be NULL. */
TRAPLINE_API trapline_ftrace* trapline_ftrace_open(const struct trapline_ftrace_options* options,
                                                   char* error, size_t error_size);

/* The same over a descriptor of a trace_marker that somebody else opened, for example the recorder.
 * The descriptor is duplicated; the caller keeps its own. */
TRAPLINE_API trapline_ftrace* trapline_ftrace_from_fd(int fd, char* error, size_t error_size);

TRAPLINE_API void trapline_ftrace_close(trapline_ftrace* marker);

/* The bytes that the kernel took; -1 when it refused (see the counts). */
TRAPLINE_API ssize_t trapline_ftrace_write(trapline_ftrace* marker, const char* text, size_t size);
TRAPLINE_API ssize_t trapline_ftrace_printf(trapline_ftrace* marker, const char* format, ...)
    TRAPLINE_PRINTF(2, 3);
TRAPLINE_API ssize_t trapline_ftrace_vprintf(trapline_ftrace* marker, const char* format,
                                             va_list arguments) TRAPLINE_PRINTF(2, 0);

TRAPLINE_API void trapline_ftrace_get_counts(const trapline_ftrace* marker,
                                             struct trapline_ftrace_counts* counts);

/* The descriptor, for handing it to another program; -1 for NULL. */
TRAPLINE_API int trapline_ftrace_fd(const trapline_ftrace* marker);

/* Writes a series of sync records (docs/formats/sync.md) of `tries` brackets; 0 means 16. Readers
 * take the narrowest. 0 on success, -1 when the kernel refused one. */
TRAPLINE_API int trapline_ftrace_sync(trapline_ftrace* marker, unsigned tries);

#ifdef __cplusplus
}
#endif

#endif
