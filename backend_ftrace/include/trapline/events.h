/* The library behind the code that trapline-tracetool generates: the catalogue of events with their
 * on/off state, and the backends' outputs.
 *
 * An event is off until something switches it on: code, an events file, the environment or the
 * monitor socket. A disabled event costs one relaxed load and a branch.
 *
 * Environment, read when the program starts:
 *   TRAPLINE_EVENTS           patterns separated by commas; '-' in front switches off; file=PATH
 *                             reads an events file; help lists the events on standard error
 *   TRAPLINE_FTRACE_INSTANCE  the ftrace instance to write into
 *   TRAPLINE_FTRACE_FD        a descriptor of a trace_marker that the parent opened
 *   TRAPLINE_LOG              path for the log backend instead of standard error
 *   TRAPLINE_LOG_PREFIX       1: thread and time before each line of the log
 *   TRAPLINE_TRACE_FILE       path for the simple backend; without it trace-PID, made when
 *                             TRAPLINE_EVENTS switches an event on; empty: no file
 *   TRAPLINE_TRACE_LAYOUT     qemu (the default) or rfc, the layout of that file
 *   TRAPLINE_MONITOR          path of a Unix socket to listen on
 */
#ifndef TRAPLINE_EVENTS_H
#define TRAPLINE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trapline/ftrace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- catalogue ---------------------------------------------------------------------------- */

struct trapline_event {
  const char* name;
  const char* types; /* one letter per argument: i integer or pointer, s string */
  uint32_t* state;   /* 0 or 1; the word that the event's call tests */
  /* Position in the order of registration; identifies the event in a simple-backend file. */
  uint32_t id;
};

struct trapline_event_group {
  const char* name;
  struct trapline_event* events;
  size_t count;
  uint32_t backends;                 /* TRAPLINE_BACKEND_* that the group was generated for */
  struct trapline_event_group* next; /* used by the library to link the registered groups */
};

#define TRAPLINE_BACKEND_LOG 1u
#define TRAPLINE_BACKEND_SIMPLE 2u
#define TRAPLINE_BACKEND_FTRACE 4u
#define TRAPLINE_BACKEND_SYSLOG 8u

/* Registers a group and opens the outputs that its backends need. A constructor in the generated
 * source calls it. */
TRAPLINE_API void trapline_events_register(struct trapline_event_group* group);
TRAPLINE_API void trapline_events_unregister(struct trapline_event_group* group);

/* Switches every event that matches `pattern` (* and ?) on or off. Returns how many matched. */
TRAPLINE_API size_t trapline_events_set(const char* pattern, bool on);

/* Applies a list in the form of TRAPLINE_EVENTS. Returns 0, or -1 when a pattern matches nothing or
 * a file cannot be read. The rest of the list is applied even then; `error` names the first failure
 * and the nearest event name. */
TRAPLINE_API int trapline_events_apply(const char* patterns, char* error, size_t error_size);

/* Applies an events file: one pattern per line, '-' in front switches off, # begins a comment.
 * Returns as trapline_events_apply() does. */
TRAPLINE_API int trapline_events_load(const char* path, char* error, size_t error_size);

/* Returns NULL when no event has that name. */
TRAPLINE_API const struct trapline_event* trapline_events_find(const char* name);

/* Calls `each` for every event that matches, group by group in the order of registration. The
 * catalogue is locked meanwhile: `each` must call no function that lists, finds, switches or
 * registers events. */
TRAPLINE_API void trapline_events_each(const char* pattern,
                                       void (*each)(const struct trapline_event*, void*),
                                       void* context);

/* Writes the registered name nearest to `wanted` into `nearest`, for error messages; "" when no
 * name is near. */
TRAPLINE_API void trapline_events_nearest(const char* wanted, char* nearest, size_t size);

/* Starts the monitor: a thread that listens on the Unix socket `path` for `info trace-events
 * [PATTERN]`, `trace-event PATTERN on|off` and `trace-file [on|off|flush|set [PATH]|layout
 * qemu|rfc]`. Every answer ends with a line "ok" or "error: …". A process has one monitor at most.
 * Returns 0, or -1 with the reason in `error`. */
TRAPLINE_API int trapline_monitor_start(const char* path, char* error, size_t error_size);
TRAPLINE_API void trapline_monitor_stop(void);

/* Executes one line as the monitor does and writes the answer to the descriptor `out`. */
TRAPLINE_API void trapline_monitor_command(const char* line, int out);

static inline bool trapline_state_is_on(const uint32_t* state) {
#if defined(__GNUC__)
  return __builtin_expect(__atomic_load_n(state, __ATOMIC_RELAXED) != 0, 0) != 0;
#else
  return *(const volatile uint32_t*)state != 0;
#endif
}

/* Tests whether an event is compiled in and on. Use it to guard work that is done only for tracing:
 * trace_event_get_state_backends(TRACE_SERIAL_WRITE). */
#define trace_event_get_state_backends(id) ((id##_ENABLED) && id##_BACKEND_DSTATE())
#define trace_event_get_state(id) trace_event_get_state_backends(id)

/* --- outputs ------------------------------------------------------------------------------ */

/* Opens the marker that generated code writes into, again and as `options` say. Without this call
 * the marker is opened when the first group with the ftrace backend registers. Returns 0, or -1
 * with the reason in `error`. */
TRAPLINE_API int trapline_ftrace_set_default(const struct trapline_ftrace_options* options,
                                             char* error, size_t error_size);
TRAPLINE_API trapline_ftrace* trapline_ftrace_default(void);
TRAPLINE_API void trapline_ftrace_event(const char* format, ...) TRAPLINE_PRINTF(1, 2);

/* Sets where the log backend writes; `fd` < 0 means standard error. Each event is one line and one
 * write(2). */
TRAPLINE_API void trapline_log_set(int fd, bool with_thread_and_time);
TRAPLINE_API void trapline_log_event(const char* format, ...) TRAPLINE_PRINTF(1, 2);

TRAPLINE_API void trapline_syslog_event(const char* format, ...) TRAPLINE_PRINTF(1, 2);

/* --- simple backend ----------------------------------------------------------------------- */

struct trapline_simple_options {
  const char* path;      /* NULL: trace-PID in the working directory */
  bool rfc;              /* the layout of the 2011 design (RFC) instead of QEMU's version 4 */
  bool flush_on_signals; /* also on fatal signals that the program does not handle */
  /* Size of each of the 16 rings, in bytes: a power of two from 128 KiB; 0: 1 MiB. */
  size_t ring_bytes;
};

/* Opens the trace file and starts the thread that writes it. Returns 0, or -1 with the reason in
 * `error`, also when another named trace file is open. */
TRAPLINE_API int trapline_simple_open(const struct trapline_simple_options* options, char* error,
                                      size_t error_size);
/* Opens another file while one is open. Later events go into the new file and none is lost in
 * between. If the new file cannot be opened, the present one stays open. flush_on_signals and
 * ring_bytes take effect with the first file only. */
TRAPLINE_API int trapline_simple_switch(const struct trapline_simple_options* options, char* error,
                                        size_t error_size);
TRAPLINE_API void trapline_simple_close(void); /* writes out all events first */
/* Returns when all earlier events are in the file, or after 10 s. */
TRAPLINE_API void trapline_simple_flush(void);
TRAPLINE_API void trapline_simple_enable(bool on);
TRAPLINE_API bool trapline_simple_is_open(void);
/* Returns how many events were dropped since the program began, because a ring was full or a write
 * failed. */
TRAPLINE_API uint64_t trapline_simple_dropped(void);

struct trapline_simple_argument {
  const char* text; /* of a string; NULL: the argument is the integer in `value` */
  uint64_t value;   /* of a string: its length in bytes */
};
TRAPLINE_API void trapline_simple_integers(uint32_t id, const uint64_t* values, uint32_t count);
TRAPLINE_API void trapline_simple_mixed(uint32_t id,
                                        const struct trapline_simple_argument* arguments,
                                        uint32_t count);
TRAPLINE_API struct trapline_simple_argument trapline_simple_string(const char* text);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
#define TRAPLINE_AS(type, value) static_cast<type>(value)
#define TRAPLINE_ADDRESS(pointer) \
  static_cast<uint64_t>(reinterpret_cast<uintptr_t>(static_cast<const void*>(pointer)))
#else
#define TRAPLINE_AS(type, value) ((type)(value))
#define TRAPLINE_ADDRESS(pointer) ((uint64_t)(uintptr_t)(const void*)(pointer))
#endif

#endif
