/* Markers of an ftrace instance, read back through libtracefs. C, because tracefs.h of Debian 12
 * does not compile as C++. */
#ifndef TRAPLINE_TESTS_TRACEFS_EVENTS_H
#define TRAPLINE_TESTS_TRACEFS_EVENTS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*trapline_marker_seen)(int pid, unsigned long long stamp, const char* text,
                                     size_t size, void* context);

/* Every marker of the instance, in the order of their stamps; 0, or -1 on failure. */
int trapline_read_markers(const char* instance, trapline_marker_seen seen, void* context);

/* Events that the instance's buffer lost. */
long trapline_lost_events(const char* instance);

#ifdef __cplusplus
}
#endif

#endif
