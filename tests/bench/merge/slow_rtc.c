// A delay planted in one device: preloaded into QEMU (LD_PRELOAD), it makes each reading of the
// time of day by a vCPU's thread SLOW_NS nanoseconds longer. With its default clock QEMU's RTC
// reads the time of day whenever the guest reads a register of time; no other device of the demo
// guest does.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int gettimeofday(struct timeval* restrict tv, void* restrict zone) {
  static int (*real)(struct timeval*, void*);
  static long long slow_ns = -1;
  if (slow_ns < 0) {
    const char* text = getenv("SLOW_NS");
    *(void**)&real = dlsym(RTLD_NEXT, "gettimeofday");
    slow_ns = text != NULL ? atoll(text) : 0;
  }
  // Also without a delay: what it costs to measure one belongs to both sides.
  if (syscall(SYS_gettid) != getpid()) {
    const long long end = now() + slow_ns;
    while (now() < end) {
    }
  }
  return real(tv, zone);
}
