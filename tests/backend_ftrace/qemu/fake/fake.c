/* QEMU's side of the generated code. Descriptors 9, 8 and 7 are the marker, the log and a simpletrace
 * file of version 4. */
#include "qemu/osdep.h"  // first, as everywhere in QEMU

#include "qemu/error-report.h"
#include "qemu/log-for-trace.h"
#include "trace/control.h"
#include "trace/ftrace.h"
#include "trace/simple.h"

int trace_events_enabled_count;
int trace_marker_fd = 9;
int qemu_loglevel = LOG_TRACE;
bool message_with_timestamp;

static TraceEvent** groups[16];
static int group_count;
static uint32_t event_count;

static void put(const void* bytes, size_t size) {
  if (write(7, bytes, size) != (ssize_t)size) abort();
}
static void put_u32(uint32_t value) { put(&value, sizeof value); }
static void put_u64(uint64_t value) { put(&value, sizeof value); }

int qemu_get_thread_id(void) { return 4711; }

void trace_event_register_group(TraceEvent** events) {
  if (group_count == 0) {
    put_u64(UINT64_MAX), put_u64(0xf2b177cb0aa429b4), put_u64(4);
  }
  groups[group_count++] = events;
  for (; *events != NULL; ++events) {
    (*events)->id = event_count++;
    put_u64(0), put_u64((*events)->id);
    put_u32((uint32_t)strlen((*events)->name));
    put((*events)->name, strlen((*events)->name));
  }
}

void fake_switch_all(bool on) {
  for (int group = 0; group < group_count; ++group) {
    for (TraceEvent** event = groups[group]; *event != NULL; ++event) {
      if ((*event)->sstate) *(*event)->dstate = on;
    }
  }
  trace_events_enabled_count = on;
}

#if QEMU_VERSION_MAJOR > 10 || QEMU_VERSION_MINOR >= 2
void ftrace_write(const char* format, ...) {
  char line[MAX_TRACE_STRLEN];
  va_list values;
  va_start(values, format);
  int size = vsnprintf(line, sizeof line, format, values);
  va_end(values);
  if (write(trace_marker_fd, line, (size_t)MIN(size, MAX_TRACE_STRLEN - 1)) < 0) abort();
}
#endif

void qemu_log(const char* format, ...) {
  va_list values;
  va_start(values, format);
  if (vdprintf(8, format, values) < 0) abort();
  va_end(values);
}

int trace_record_start(TraceBufferRecord* record, uint32_t id, size_t size) {
  static uint64_t time;
  put_u64(1), put_u64(id), put_u64(time += 1000);
  put_u32((uint32_t)(24 + size)), put_u32(4711);
  *record = (TraceBufferRecord){size, 0};
  return 0;
}

void trace_record_write_u64(TraceBufferRecord* record, uint64_t value) {
  put_u64(value);
  record->written += 8;
}

void trace_record_write_str(TraceBufferRecord* record, const char* text, uint32_t size) {
  put_u32(size), put(text, size);
  record->written += 4 + size;
}

void trace_record_finish(TraceBufferRecord* record) {
  if (record->promised != record->written) abort();
}
