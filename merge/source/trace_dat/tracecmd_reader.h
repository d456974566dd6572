/* libtracecmd's iterator through a C interface of our own: its headers do not compile as C++. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One record, in the order libtracecmd yields them. */
struct trapline_record {
  uint64_t time;  /* as libtracecmd converted it */
  int64_t missed; /* events lost just before: 0 none, -1 an unknown number */
  uint32_t cpu;
  uint32_t stream; /* different for each CPU of each buffer */
  uint32_t size;   /* of the data that follows */
  uint32_t unused;
};

/* Writes every record of `path` (all buffers) to `fd`: struct trapline_record, then its data.
 * Returns 0, or -1 when libtracecmd cannot read the file or the pipe was closed. Runs in a child:
 * damaged pages crash libtracecmd. */
int trapline_stream_records(const char* path, int fd);

#ifdef __cplusplus
}
#endif
