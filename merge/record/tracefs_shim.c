#include "merge/record/tracefs_shim.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <tracefs.h>

/* Repeats CALL until no signal interrupts it. */
#define UNINTERRUPTED(result, call) \
  do {                              \
    errno = 0;                      \
    (result) = (call);              \
  } while ((result) < 0 && errno == EINTR)

/* Returns the cause of a failure; the library sets no errno if it has no memory. */
static int cause(void) { return errno != 0 ? errno : EIO; }

static int written(int size, const char* text) {
  if (size < 0) return cause();
  return (size_t)size == strlen(text) ? 0 : EIO;
}

/* tracefs_instance_alloc() copies a name into a buffer of PATH_MAX without checking its length. */
static int is_short(const char* root, const char* name) {
  if (name == NULL || (strlen(name) <= NAME_MAX && strlen(root) < PATH_MAX / 2)) return 1;
  errno = ENAMETOOLONG;
  return 0;
}

/* The library keeps one root for the whole process, whichever instance is meant. */
static void forget_root(void) { (void)tracefs_set_tracing_dir(NULL); }

struct tracefs_instance* trapline_tracefs_open(const char* root, const char* name) {
  if (!is_short(root, name)) return NULL;
  errno = ENOENT;
  return tracefs_instance_alloc(root, name);
}

struct tracefs_instance* trapline_tracefs_make(const char* root, const char* name) {
  if (!is_short(root, name)) return NULL;
  if (tracefs_set_tracing_dir((char*)root) != 0) return NULL;
  struct tracefs_instance* made = tracefs_instance_create(name);
  forget_root();
  /* The library also returns an instance that existed before. */
  if (made == NULL || tracefs_instance_is_new(made)) return made;
  tracefs_instance_free(made);
  errno = EEXIST;
  return NULL;
}

int trapline_tracefs_remove(struct tracefs_instance* instance) {
  errno = 0;
  return tracefs_instance_destroy(instance) == 0 ? 0 : cause();
}

void trapline_tracefs_close(struct tracefs_instance* instance) { tracefs_instance_free(instance); }

int trapline_tracefs_write(struct tracefs_instance* instance, const char* file, const char* text) {
  int size;
  UNINTERRUPTED(size, tracefs_instance_file_write(instance, file, text));
  return written(size, text);
}

int trapline_tracefs_append(struct tracefs_instance* instance, const char* file, const char* text) {
  int size;
  UNINTERRUPTED(size, tracefs_instance_file_append(instance, file, text));
  return written(size, text);
}

/* The library returns NULL for an error and for an empty file; errno distinguishes them. */
char* trapline_tracefs_read(struct tracefs_instance* instance, const char* file) {
  char* text;
  do {
    errno = 0;
    text = tracefs_instance_file_read(instance, file, NULL);
  } while (text == NULL && errno == EINTR);
  return text == NULL && errno == 0 ? strdup("") : text;
}

int trapline_tracefs_has(struct tracefs_instance* instance, const char* file) {
  return tracefs_file_exists(instance, file);
}

int trapline_tracefs_switch(struct tracefs_instance* instance, int on) {
  int result;
  UNINTERRUPTED(result, on != 0 ? tracefs_trace_on(instance) : tracefs_trace_off(instance));
  return result == 0 ? 0 : cause();
}

char* trapline_tracefs_clock(struct tracefs_instance* instance) {
  char* clock;
  do {
    errno = 0;
    clock = tracefs_get_clock(instance);
  } while (clock == NULL && errno == EINTR);
  return clock;
}

int trapline_tracefs_set_buffer_kb(struct tracefs_instance* instance, size_t kb) {
  int result;
  UNINTERRUPTED(result, tracefs_instance_set_buffer_size(instance, kb, -1));
  return result == 0 ? 0 : cause();
}

long trapline_tracefs_buffer_kb(struct tracefs_instance* instance, unsigned cpu) {
  long size;
  UNINTERRUPTED(size, tracefs_instance_get_buffer_size(instance, (int)cpu));
  return size;
}

int trapline_tracefs_follow_forks(struct tracefs_instance* instance) {
  int result;
  UNINTERRUPTED(result, tracefs_option_enable(instance, TRACEFS_OPTION_EVENT_FORK));
  return result == 0 ? 0 : cause();
}

int trapline_tracefs_set_event(struct tracefs_instance* instance, const char* system,
                               const char* event, const char* file, const char* text) {
  int size;
  UNINTERRUPTED(size, tracefs_event_file_write(instance, system, event, file, text));
  return written(size, text);
}

static void tell(char** list, trapline_tracefs_name each, void* context) {
  for (int i = 0; list != NULL && list[i] != NULL; ++i) each(list[i], context);
  tracefs_list_free(list);
}

void trapline_tracefs_systems(const char* root, trapline_tracefs_name each, void* context) {
  tell(tracefs_event_systems(root), each, context);
}

void trapline_tracefs_events(const char* root, const char* system, trapline_tracefs_name each,
                             void* context) {
  tell(tracefs_system_events(root, system), each, context);
}

void trapline_tracefs_instances(const char* root, trapline_tracefs_name each, void* context) {
  if (tracefs_set_tracing_dir((char*)root) != 0) return;
  tell(tracefs_instances(NULL), each, context);
  forget_root();
}
