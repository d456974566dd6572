#include "merge/source/trace_dat/tracecmd_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <trace-cmd.h>

static int write_record(struct tracecmd_input* handle, struct tep_record* record, int cpu,
                        void* context) {
  FILE* out = context;
  /* `cpu` counts on from buffer to buffer, record->cpu does not. */
  const struct trapline_record head = {record->ts,    record->missed_events,  (uint32_t)record->cpu,
                                       (uint32_t)cpu, (uint32_t)record->size, 0};
  (void)handle;
  if (record->size < 0) return -1;
  if (fwrite(&head, sizeof head, 1, out) != 1) return -1;
  return fwrite(record->data, 1, head.size, out) == head.size ? 0 : -1;
}

int trapline_stream_records(const char* path, int fd) {
  struct tracecmd_input** handles;
  struct tracecmd_input* top;
  FILE* out = fdopen(fd, "w");
  int instances;
  int count = 0;
  int status;

  tracecmd_set_loglevel(TEP_LOG_NONE);
  top = tracecmd_open_head(path, TRACECMD_FL_LOAD_NO_PLUGINS);
  if (!out || !top || tracecmd_init_data(top) < 0) return -1;
  instances = tracecmd_buffer_instances(top);
  handles = calloc((size_t)instances + 1, sizeof *handles);
  if (!handles) return -1;
  handles[count++] = top;
  for (int i = 0; i < instances; i++) {
    struct tracecmd_input* instance = tracecmd_buffer_instance_handle(top, i);
    if (instance) handles[count++] = instance;
  }
  status = tracecmd_iterate_events_multi(handles, count, write_record, out);
  if (fflush(out) != 0) status = -1;
  return status; /* handles are left to the process's end: closing damaged ones crashes */
}
