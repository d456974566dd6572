// Loaded into QEMU (LD_PRELOAD), for the tests of `trapline report --waits`: a thread that takes
// QEMU's global lock, sleeps for 20 ms with it and lets it go, 20 times; from when to when it held
// it goes to the file $PLANT_LOCK names, in nanoseconds of CLOCK_MONOTONIC. It begins when that
// file has a byte.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "plant.h"

enum { kTimes = 20, kHeldMs = 20, kFreeMs = 15 };

static void* hold(void* path) {
  void (*lock)(const char*, int) = (void (*)(const char*, int))dlsym(RTLD_DEFAULT, "bql_lock_impl");
  void (*unlock)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "bql_unlock");
  if (lock == NULL || unlock == NULL) return NULL;
  pthread_setname_np(pthread_self(), "plant-lock");
  struct stat file;
  while (stat(path, &file) != 0 || file.st_size == 0) sleep_us(1000 * kFreeMs);
  uint64_t begin[kTimes], end[kTimes];
  for (int i = 0; i < kTimes; ++i) {
    lock(__FILE__, __LINE__);
    begin[i] = now();
    sleep_us(1000 * kHeldMs);
    end[i] = now();
    unlock();
    sleep_us(1000 * kFreeMs);
  }
  FILE* out = fopen(path, "w");
  if (out == NULL) return NULL;
  for (int i = 0; i < kTimes; ++i)
    fprintf(out, "lock %llu %llu\n", (unsigned long long)begin[i], (unsigned long long)end[i]);
  fclose(out);
  return NULL;
}

__attribute__((constructor)) static void start(void) {
  static char path[256];
  const char* wanted = getenv("PLANT_LOCK");
  if (wanted == NULL) return;
  snprintf(path, sizeof path, "%s", wanted);
  unsetenv("LD_PRELOAD");
  pthread_t thread;
  pthread_create(&thread, NULL, hold, path);
}
