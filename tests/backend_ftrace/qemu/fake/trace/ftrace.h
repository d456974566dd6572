#ifndef FAKE_TRACE_FTRACE_H
#define FAKE_TRACE_FTRACE_H
#define MAX_TRACE_STRLEN 512
extern int trace_marker_fd;
#if QEMU_VERSION_MAJOR > 10 || QEMU_VERSION_MINOR >= 2
void G_GNUC_PRINTF(1, 2) ftrace_write(const char* format, ...);
#endif
#endif
