/* The least a libtracecmd program does: open, visit every event of every CPU in order of time,
 * count. */
#include <stdio.h>
#include <trace-cmd.h>

struct totals {
  unsigned long long count, bytes;
};

static int visit(struct tracecmd_input* handle, struct tep_record* record, int cpu, void* context) {
  struct totals* totals = context;
  (void)handle;
  (void)cpu;
  totals->count++;
  totals->bytes += (unsigned long long)record->size;
  return 0;
}

int main(int argc, char** argv) {
  struct totals totals = {0, 0};
  struct tracecmd_input* handle;

  if (argc != 2) return 2;
  handle = tracecmd_open(argv[1], TRACECMD_FL_LOAD_NO_PLUGINS);
  if (!handle) return 1;
  if (tracecmd_iterate_events_multi(&handle, 1, visit, &totals) != 0) return 1;
  printf("%llu events, %llu bytes\n", totals.count, totals.bytes);
  tracecmd_close(handle);
  return 0;
}
