#include "tests/support/tracecmd_reader.h"

#include <stdlib.h>
#include <trace-cmd.h>

static int give_record(struct tracecmd_input* handle, struct tep_record* record, int cpu,
                       void* context) {
  trapline_take_record* take = context;
  (void)handle;
  if (record->size < 0) return -1;
  /* `cpu` counts on from buffer to buffer, record->cpu does not. */
  (*take)(record->ts, record->missed_events, (uint32_t)record->cpu, (uint32_t)cpu, record->data,
          (uint32_t)record->size);
  return 0;
}

int trapline_each_record(int fd, trapline_take_record take) {
  struct tracecmd_input** handles;
  struct tracecmd_input* top;
  int instances;
  int count = 0;
  int status;

  tracecmd_set_loglevel(TEP_LOG_NONE);
  top = tracecmd_open_fd(fd, TRACECMD_FL_LOAD_NO_PLUGINS);
  if (!top) return -1;
  instances = tracecmd_buffer_instances(top);
  handles = calloc((size_t)instances + 1, sizeof *handles);
  if (!handles) return -1;
  handles[count++] = top;
  for (int i = 0; i < instances; i++) {
    struct tracecmd_input* instance = tracecmd_buffer_instance_handle(top, i);
    if (instance) handles[count++] = instance;
  }
  /* The handles are left to the process's end: closing damaged ones crashes. */
  status = tracecmd_iterate_events_multi(handles, count, give_record, &take);
  free(handles);
  return status;
}
