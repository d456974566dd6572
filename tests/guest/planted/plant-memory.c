// Loaded into QEMU (LD_PRELOAD), for the tests of `trapline stalls` and `report --faults`: the
// guest's memory, but for the first and the last 16 MiB, is in small pages, and
//
//   PLANT_ZAP=FILE    a thread takes it away (MADV_DONTNEED), twice, at a low priority: until that
//                     is done KVM maps none of it, and a vCPU that touches it faults without end.
//                     From when to when goes to FILE, in nanoseconds of CLOCK_MONOTONIC, once
//                     that file is there.
//   PLANT_SWAP=FILE   it is swapped out before the guest runs; FILE is memory.reclaim of QEMU's
//                     cgroup, which frees what was written.
//   PLANT_COLLAPSE=FILE  a thread collapses it into huge pages once that file is there, 2 MiB at a
//                     time (MADV_COLLAPSE), at a low priority: a vCPU that touches them waits.
//                     With PLANT_KHUGEPAGED it only asks for huge pages. Then it writes to the
//                     file.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plant.h"

enum { kMiB = 1 << 20, kLeastGuestMiB = 64, kEdgeMiB = 16, kTimes = 2, kPriority = 10 };
enum { kHugeMiB = 2, kMadviseCollapse = 25 };  // MADV_COLLAPSE, which older headers lack

static char* memory;
static size_t length;

static int advise(int advice) { return (int)syscall(SYS_madvise, memory, length, advice); }

static void* zap(void* argument) {
  const char* path = argument;
  pthread_setname_np(pthread_self(), "plant-zap");
  const id_t self = (id_t)syscall(SYS_gettid);
  while (access(path, F_OK) != 0) sleep_us(10000);
  for (int i = 0; i < kTimes; ++i) {
    for (size_t at = 0; at < length; at += 4096) ((volatile char*)memory)[at] = 1;
    sleep_us(200000);
    setpriority(PRIO_PROCESS, self, kPriority);
    const uint64_t begin = now();
    if (advise(MADV_DONTNEED) != 0) perror("plant-memory: MADV_DONTNEED");
    const uint64_t end = now();
    setpriority(PRIO_PROCESS, self, 0);
    FILE* out = fopen(path, "a");
    if (out == NULL) continue;
    fprintf(out, "zap %llu %llu\n", (unsigned long long)begin, (unsigned long long)end);
    fclose(out);
  }
  return NULL;
}

static void* collapse(void* argument) {
  pthread_setname_np(pthread_self(), "plant-collapse");
  while (access((const char*)argument, F_OK) != 0) sleep_us(10000);
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), kPriority);
  advise(MADV_HUGEPAGE);
  const size_t itself = getenv("PLANT_KHUGEPAGED") != NULL ? 0 : length;
  for (size_t at = 0; at < itself; at += (size_t)kHugeMiB * kMiB) {
    if (syscall(SYS_madvise, memory + at, (size_t)kHugeMiB * kMiB, kMadviseCollapse) != 0)
      perror("plant-memory: MADV_COLLAPSE");
    sleep_us(20000);
  }
  FILE* out = fopen((const char*)argument, "a");
  if (out != NULL) fclose((fputs("done\n", out), out));
  return NULL;
}

static void swap_out(const char* reclaim) {
  for (size_t at = 0; at < length; at += 4096) memory[at] = 1;
  if (advise(MADV_PAGEOUT) != 0) perror("plant-memory: MADV_PAGEOUT");
  sleep_us(500000);
  const int fd = open(reclaim, O_WRONLY);
  // EAGAIN: there was less.
  if (fd < 0 || (write(fd, "32M", 3) < 0)) perror("plant-memory: memory.reclaim");
  if (fd >= 0) close(fd);
}

// QEMU asks for huge pages for the guest's memory before the guest has any.
int madvise(void* address, size_t size, int advice) {
  const int done = (int)syscall(SYS_madvise, address, size, advice);
  const char *zapped = getenv("PLANT_ZAP"), *swapped = getenv("PLANT_SWAP"),
             *collapsed = getenv("PLANT_COLLAPSE");
  if (memory == NULL && advice == MADV_HUGEPAGE && size >= (size_t)kLeastGuestMiB * kMiB) {
    pthread_t thread;
    memory = (char*)address + (size_t)kEdgeMiB * kMiB;
    length = size - 2 * (size_t)kEdgeMiB * kMiB;
    advise(MADV_NOHUGEPAGE);
    if (swapped != NULL) swap_out(swapped);
    if (zapped != NULL && pthread_create(&thread, NULL, zap, (void*)zapped) != 0) exit(1);
    if (collapsed != NULL && pthread_create(&thread, NULL, collapse, (void*)collapsed) != 0)
      exit(1);
  }
  return done;
}
