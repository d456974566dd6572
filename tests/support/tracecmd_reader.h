/* libtracecmd's iterator through a C interface of our own: its headers do not compile as C++. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Takes one record, in the order libtracecmd yields them; `stream` differs for each CPU of each
 * buffer, `missed` events were lost just before: 0 none, -1 an unknown number. */
typedef void (*trapline_take_record)(uint64_t time, int64_t missed, uint32_t cpu, uint32_t stream,
                                     const void* data, uint32_t size);

/* Gives every record of the open file (all buffers) to `take`. Returns 0, or -1 when libtracecmd
 * cannot read the file. */
int trapline_each_record(int fd, trapline_take_record take);

#ifdef __cplusplus
}
#endif
