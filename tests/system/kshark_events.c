// What KernelShark's library finds in a trace.dat: the number of holes, then a line for each event,
// "TIME CPU THREAD NAME", in the order in which KernelShark shows them.
#include <inttypes.h>
#include <libkshark.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  struct kshark_context* kshark = NULL;
  struct kshark_entry** rows = NULL;
  ssize_t count, i, holes = 0;
  int stream;

  if (argc != 2 || !kshark_instance(&kshark)) return 2;
  stream = kshark_open(kshark, argv[1]);
  if (stream < 0) {
    fprintf(stderr, "%s: KernelShark cannot open it: %d\n", argv[1], stream);
    return 1;
  }
  count = kshark_load_entries(kshark, stream, &rows);
  if (count < 0) {
    fprintf(stderr, "%s: KernelShark cannot load it: %zd\n", argv[1], count);
    return 1;
  }
  for (i = 0; i < count; ++i) holes += rows[i]->event_id == KS_EVENT_OVERFLOW;
  printf("%zd\n", holes);
  for (i = 0; i < count; ++i) {
    if (rows[i]->event_id != KS_EVENT_OVERFLOW) {
      char* name = kshark_get_event_name(rows[i]);  // "SYSTEM/NAME"
      const char* slash = strchr(name, '/');
      printf("%" PRId64 " %d %d %s\n", rows[i]->ts, rows[i]->cpu, kshark_get_pid(rows[i]),
             slash == NULL ? name : slash + 1);
      free(name);
    }
    free(rows[i]);
  }
  free(rows);
  kshark_close(kshark, stream);
  kshark_free(kshark);
  return 0;
}
