#include "tracefs_peer.h"

#include <tracefs.h>

static struct tracefs_instance* instance;

int tracefs_peer_open(const char* name) {
  instance = tracefs_instance_create(name);
  return instance == NULL ? -1 : tracefs_print_init(instance);
}

int tracefs_peer_write(unsigned long addr, unsigned value, unsigned size) {
  return tracefs_printf(instance, "bench_write addr 0x%lx value 0x%x size %u", addr, value, size);
}

void tracefs_peer_close(void) {
  tracefs_print_close(instance);
  tracefs_instance_free(instance);
}
