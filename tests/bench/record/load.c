/* System calls at a steady rate: load CALLS-PER-SECOND SECONDS. Each is two raw_syscalls events. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: load CALLS-PER-SECOND SECONDS\n");
    return 2;
  }
  const double rate = atof(argv[1]);
  const double seconds = atof(argv[2]);
  const double start = now();
  double made = 0;
  for (double passed = 0; passed < seconds; passed = now() - start) {
    /* Behind by what a pause cost, but never faster than twice the rate for long. */
    for (double due = passed * rate; made < due; ++made) syscall(SYS_getppid);
    usleep(1000);
  }
  printf("%.0f\n", made * 2);
  return 0;
}
