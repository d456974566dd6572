/* libtracefs for C++: its header compiles as C alone (tracefs.h of 1.6.4, line 451).
 *
 * Calls return 0 or the cause as errno has it; or NULL with errno set. Unlike the library, they make
 * an interrupted call again and take a short write for EIO. The root of tracefs is always given: the
 * library mounts tracefs where it looks for it itself. */
#ifndef TRAPLINE_MERGE_RECORD_TRACEFS_SHIM_H
#define TRAPLINE_MERGE_RECORD_TRACEFS_SHIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tracefs_instance;

/* An instance that is there; with name NULL the top level. */
struct tracefs_instance* trapline_tracefs_open(const char* root, const char* name);
/* A new one; EEXIST where there is one of that name, which the library would take for its own. */
struct tracefs_instance* trapline_tracefs_make(const char* root, const char* name);
int trapline_tracefs_remove(
    struct tracefs_instance* instance); /* from tracefs; still to be closed */
void trapline_tracefs_close(struct tracefs_instance* instance);

/* Control files, whole. Texts are freed by free(); an empty file is "". */
int trapline_tracefs_write(struct tracefs_instance* instance, const char* file, const char* text);
int trapline_tracefs_append(struct tracefs_instance* instance, const char* file, const char* text);
char* trapline_tracefs_read(struct tracefs_instance* instance, const char* file);
int trapline_tracefs_has(struct tracefs_instance* instance, const char* file);

int trapline_tracefs_switch(struct tracefs_instance* instance, int on);
char* trapline_tracefs_clock(struct tracefs_instance* instance);
int trapline_tracefs_set_buffer_kb(struct tracefs_instance* instance, size_t kb);
long trapline_tracefs_buffer_kb(struct tracefs_instance* instance, unsigned cpu); /* -1: unknown */
int trapline_tracefs_follow_forks(struct tracefs_instance* instance);
/* FILE of an event: enable, filter. */
int trapline_tracefs_set_event(struct tracefs_instance* instance, const char* system,
                               const char* event, const char* file, const char* text);

typedef void (*trapline_tracefs_name)(const char* name, void* context);
/* Those below root: systems of events; a system's events; instances. */
void trapline_tracefs_systems(const char* root, trapline_tracefs_name each, void* context);
void trapline_tracefs_events(const char* root, const char* system, trapline_tracefs_name each,
                             void* context);
void trapline_tracefs_instances(const char* root, trapline_tracefs_name each, void* context);

#ifdef __cplusplus
}
#endif

#endif
