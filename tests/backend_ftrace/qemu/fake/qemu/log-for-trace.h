#ifndef FAKE_QEMU_LOG_FOR_TRACE_H
#define FAKE_QEMU_LOG_FOR_TRACE_H
#define LOG_TRACE (1 << 15)
extern int qemu_loglevel;
static inline bool qemu_loglevel_mask(int mask) { return (qemu_loglevel & mask) != 0; }
void G_GNUC_PRINTF(1, 2) qemu_log(const char* format, ...);
#endif
