/* The C library, and GLib's and QEMU's macros that generated code uses. */
#ifndef FAKE_QEMU_OSDEP_H
#define FAKE_QEMU_OSDEP_H
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define G_GNUC_UNUSED __attribute__((unused))
#define G_GNUC_PRINTF(at, first) __attribute__((format(printf, at, first)))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define unlikely(x) __builtin_expect(!!(x), 0)

int qemu_get_thread_id(void);
#endif
