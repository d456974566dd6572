#include "tests/support/tracefs_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tracefs.h>

struct reader {
  trapline_marker_seen seen;
  void* context;
};

static int on_event(struct tep_event* event, struct tep_record* record, int cpu, void* context) {
  struct reader* reader = context;
  (void)cpu;
  if (strcmp(event->name, "print") != 0) return 0;
  struct tep_format_field* field = tep_find_field(event, "buf");
  if (field == NULL || record->size < field->offset) return 0;
  const char* text = (const char*)record->data + field->offset;
  reader->seen(tep_data_pid(event->tep, record), record->ts, text,
               strnlen(text, (size_t)(record->size - field->offset)), reader->context);
  return 0;
}

int trapline_read_markers(const char* instance, trapline_marker_seen seen, void* context) {
  static const char* const systems[] = {"ftrace", NULL};
  struct tracefs_instance* opened = tracefs_instance_create(instance);
  struct tep_handle* tep = tracefs_local_events_system(NULL, systems);
  struct reader reader = {seen, context};
  int result = -1;
  if (opened != NULL && tep != NULL) {
    result = tracefs_iterate_raw_events(tep, opened, NULL, 0, on_event, &reader);
  }
  if (tep != NULL) tep_free(tep);
  if (opened != NULL) tracefs_instance_free(opened);
  return result < 0 ? -1 : 0;
}

long trapline_lost_events(const char* instance) {
  long lost = 0;
  for (int cpu = 0; cpu < 1024; ++cpu) {
    char path[512];
    char line[256];
    snprintf(path, sizeof path, "/sys/kernel/tracing/instances/%s/per_cpu/cpu%d/stats", instance,
             cpu);
    FILE* stats = fopen(path, "re");
    if (stats == NULL) break;
    while (fgets(line, sizeof line, stats) != NULL) {
      if (strncmp(line, "overrun: ", 9) == 0) lost += atol(line + 9);
      if (strncmp(line, "dropped events: ", 16) == 0) lost += atol(line + 16);
    }
    fclose(stats);
  }
  return lost;
}
