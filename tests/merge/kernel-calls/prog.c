/* What uftrace records: two functions that call the kernel, one of which sleeps. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#define PLAIN __attribute__((noinline, noclone))
static volatile int sink;
PLAIN void look(const char* path) {
  char text[64];
  int file = open(path, O_RDONLY);
  sink += (int)read(file, text, sizeof text);
  close(file);
}
PLAIN void nap(void) { usleep(2000); }
int main(void) {
  for (int i = 0; i < 3; ++i) look("/proc/uptime"), nap();
  return 0;
}
