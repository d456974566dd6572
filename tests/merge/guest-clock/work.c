/* What uftrace records in the guest: exits of known kinds in known functions, on two threads that
 * stay on a vCPU each and a third that moves between them. Its argument is a device's register to
 * write to. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PLAIN __attribute__((noinline, noclone))
static volatile uint64_t sink;
static volatile uint32_t* device;

PLAIN void cpuid_read(unsigned n) {
  unsigned a, b, c, d;
  __cpuid(n, a, b, c, d);
  sink += a + b + c + d;
}
PLAIN void device_write(unsigned n) { *device = n; }
PLAIN void compute(unsigned n) {
  uint64_t x = n;
  for (unsigned i = 0; i < 2000; ++i) x = x * 6364136223846793005u + 1;
  sink += x;
}
static void go_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}
PLAIN void* reader(void* a) {
  go_to(0);
  for (unsigned i = 0; i < 100; ++i) cpuid_read(0x40000000), compute(i);
  return a;
}
PLAIN void* writer(void* a) {
  go_to(1);
  for (unsigned i = 0; i < 100; ++i) device_write(i), compute(i);
  return a;
}
PLAIN void* wanderer(void* a) {
  for (unsigned i = 0; i < 20; ++i) go_to((int)i % 2), cpuid_read(0x40000001), device_write(i);
  return a;
}
int main(int argc, char** argv) {
  pthread_t threads[3];
  unsigned long address = strtoul(argv[argc - 1], NULL, 0);
  int memory = open("/dev/mem", O_RDWR | O_SYNC);
  char* page =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, (off_t)(address & ~4095ul));
  if (page == MAP_FAILED) return 1;
  device = (volatile uint32_t*)(page + (address & 4095));
  pthread_create(&threads[0], NULL, reader, NULL);
  pthread_create(&threads[1], NULL, writer, NULL);
  pthread_create(&threads[2], NULL, wanderer, NULL);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  return 0;
}
