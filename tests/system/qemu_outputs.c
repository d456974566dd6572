/* QEMU's own side of the trace code (trace/control.c, simple.c, ftrace.c, util/log.c), switched on
 * as QEMU's main() does, for the program that make_driver writes. */
#include "qapi/error.h"
#include "qemu/config-file.h"
#include "qemu/log.h"
#include "qemu/module.h"
#include "qemu/option.h"
#include "qemu/osdep.h"
#include "trace/control.h"
#include "trace/simple.h"

void fake_switch_all(bool on);

void fake_switch_all(bool on) {
  TraceEventIter each;
  TraceEvent* event;

  qemu_add_opts(&qemu_trace_opts);
  module_call_init(MODULE_INIT_TRACE);
  if (!trace_init_backends()) exit(9);
  trace_opt_parse(g_strdup_printf("file=%s", getenv("SIMPLE_FILE")));
  trace_init_file();
  qemu_set_log_filename_flags(getenv("LOG_FILE"), LOG_TRACE, &error_fatal);
  trace_event_iter_init_all(&each);
  while ((event = trace_event_iter_next(&each)) != NULL) {
    if (trace_event_get_state_static(event)) trace_event_set_state_dynamic(event, on);
  }
}
