// Loaded into QEMU (LD_PRELOAD), for the tests of `trapline stalls`: the guest's memory from 16 to
// 48 MiB is served by a thread of user space (userfaultfd), which answers each page fault after
// 60 ms, or $PLANT_UFFD_MS; from when to when, in nanoseconds of CLOCK_MONOTONIC, and the
// guest-physical address go to the file $PLANT_UFFD names, once that file is there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plant.h"

enum {
  kMiB = 1 << 20,
  kGuestMiB = 64,
  kFirstMiB = 16,
  kLastMiB = 48,
  kPage = 4096,
  kAnswerMs = 60
};

static char path[256];
static char* guest;  // its memory

static void* serve(void* argument) {
  const int uffd = (int)(long)argument;
  const char* ms = getenv("PLANT_UFFD_MS");
  const long answer_us = 1000 * (ms != NULL ? atol(ms) : kAnswerMs);
  static char page[kPage] __attribute__((aligned(kPage)));
  struct uffd_msg fault;
  pthread_setname_np(pthread_self(), "plant-uffd");
  while (read(uffd, &fault, sizeof fault) == sizeof fault) {
    const uint64_t begin = now();
    sleep_us(answer_us);
    struct uffdio_copy copy = {fault.arg.pagefault.address & ~(uint64_t)(kPage - 1),
                               (uintptr_t)page, kPage, 0, 0};
    FILE* out = fopen(path, "r+");
    if (out != NULL) {
      fseek(out, 0, SEEK_END);
      fprintf(out, "uffd %llu %llu %#llx\n", (unsigned long long)begin, (unsigned long long)now(),
              (unsigned long long)(copy.dst - (uintptr_t)guest));
      fclose(out);
    }
    if (ioctl(uffd, UFFDIO_COPY, &copy) != 0) perror("UFFDIO_COPY");
  }
  return NULL;
}

static void take(char* memory) {
  const int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  struct uffdio_api api = {UFFD_API, 0, 0};
  struct uffdio_register range = {
      {(uintptr_t)memory + (uint64_t)kFirstMiB * kMiB, (uint64_t)(kLastMiB - kFirstMiB) * kMiB},
      UFFDIO_REGISTER_MODE_MISSING,
      0};
  pthread_t thread;
  if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) != 0 || ioctl(uffd, UFFDIO_REGISTER, &range) != 0 ||
      pthread_create(&thread, NULL, serve, (void*)(long)uffd) != 0) {
    perror("plant-uffd");
    exit(1);
  }
}

// QEMU asks for huge pages for the guest's memory before the guest has any.
int madvise(void* memory, size_t size, int advice) {
  static int taken;
  const int done = (int)syscall(SYS_madvise, memory, size, advice);
  const char* wanted = getenv("PLANT_UFFD");
  if (wanted != NULL && !taken && advice == MADV_HUGEPAGE && size == (size_t)kGuestMiB * kMiB) {
    taken = 1;
    snprintf(path, sizeof path, "%s", wanted);
    guest = memory;
    take(memory);
  }
  return done;
}
