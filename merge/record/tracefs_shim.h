/* Makes libtracefs usable from C++: its header compiles only as C (tracefs.h of 1.6.4, line 451).
 *
 * Functions return 0 or an errno value; those that return a pointer return NULL with errno set.
 * Unlike the library, they repeat an interrupted call and return EIO for a short write. The root of
 * tracefs must always be given: the library would mount tracefs when it searches for it. */
#ifndef TRAPLINE_MERGE_RECORD_TRACEFS_SHIM_H
#define TRAPLINE_MERGE_RECORD_TRACEFS_SHIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tracefs_instance;

/* Opens an existing instance; the top level if name is NULL. */
struct tracefs_instance* trapline_tracefs_open(const char* root, const char* name);
/* Makes an instance. EEXIST if the name exists, which the library would accept as its own. */
struct tracefs_instance* trapline_tracefs_make(const char* root, const char* name);
int trapline_tracefs_remove(
    struct tracefs_instance* instance); /* call trapline_tracefs_close() afterwards */
void trapline_tracefs_close(struct tracefs_instance* instance);

/* Read and write whole control files. Free texts with free(); an empty file is "". */
int trapline_tracefs_write(struct tracefs_instance* instance, const char* file, const char* text);
int trapline_tracefs_append(struct tracefs_instance* instance, const char* file, const char* text);
char* trapline_tracefs_read(struct tracefs_instance* instance, const char* file);
int trapline_tracefs_has(struct tracefs_instance* instance, const char* file);

int trapline_tracefs_switch(struct tracefs_instance* instance, int on);
char* trapline_tracefs_clock(struct tracefs_instance* instance);
int trapline_tracefs_set_buffer_kb(struct tracefs_instance* instance, size_t kb);
long trapline_tracefs_buffer_kb(struct tracefs_instance* instance,
                                unsigned cpu); /* -1: not known */
int trapline_tracefs_follow_forks(struct tracefs_instance* instance);
/* Writes a file of an event: enable, filter. */
int trapline_tracefs_set_event(struct tracefs_instance* instance, const char* system,
                               const char* event, const char* file, const char* text);

typedef void (*trapline_tracefs_name)(const char* name, void* context);
/* Call `each` for everything below root: systems of events; a system's events; instances. */
void trapline_tracefs_systems(const char* root, trapline_tracefs_name each, void* context);
void trapline_tracefs_events(const char* root, const char* system, trapline_tracefs_name each,
                             void* context);
void trapline_tracefs_instances(const char* root, trapline_tracefs_name each, void* context);

#ifdef __cplusplus
}
#endif

#endif
