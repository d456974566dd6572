// A program that traces itself, for tests/system/faults.py: N events into the ftrace instance
// INSTANCE, the same N into a simpletrace file, then one line that tells what the library says of
// them.
//
//   fault_writer N INSTANCE FILE RESULT
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trapline/events.h"

static uint32_t state = 1;
static struct trapline_event event = {"fault_event", "i", &state, 0};
static struct trapline_event_group group = {"fault", &event, 1, TRAPLINE_BACKEND_SIMPLE, NULL};

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int result = open(argv[4], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const long count = atol(argv[1]);
  const struct trapline_ftrace_options marker_options = {argv[2], NULL};
  struct trapline_simple_options file_options;
  memset(&file_options, 0, sizeof file_options);
  file_options.path = argv[3];

  char no_marker[256] = "", no_file[256] = "";
  trapline_events_register(&group);
  trapline_ftrace* marker = trapline_ftrace_open(&marker_options, no_marker, sizeof no_marker);
  const int opened = trapline_simple_open(&file_options, no_file, sizeof no_file);
  long taken = 0;
  for (long i = 0; i < count; ++i) {
    const uint64_t value = (uint64_t)i;
    taken += trapline_ftrace_printf(marker, "fault_event %ld\n", i) > 0;
    trapline_simple_integers(event.id, &value, 1);
    if (i % 1000 == 999) trapline_simple_flush();
  }
  struct trapline_ftrace_counts counts = {0, 0, 0};
  if (marker != NULL) trapline_ftrace_get_counts(marker, &counts);
  trapline_simple_close();
  dprintf(result,
          "{\"marker\": %d, \"taken\": %ld, \"refused\": %" PRIu64
          ", \"file\": %d, \"dropped\": %" PRIu64 ", \"told\": %d}\n",
          marker != NULL, taken, counts.refused, opened == 0, trapline_simple_dropped(),
          (marker != NULL || no_marker[0] != '\0') && (opened == 0 || no_file[0] != '\0'));
  trapline_ftrace_close(marker);
  return 0;
}
