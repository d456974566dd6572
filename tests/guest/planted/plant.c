// What is planted on a KVM host for the tests of `trapline report --waits`, and what is known of
// it.
//
//   plant hog BUSY-MS IDLE-MS           uses the CPU for BUSY, sleeps for IDLE, until SIGTERM
//   plant storm DEVICE                  writes to a serial line: an interrupt for each few bytes
//   plant realtime PID                  gives its threads a real-time policy (SCHED_FIFO)
//   plant watch MARKER MS PID...        until the first of them ends, each MS milliseconds, of each
//                                       thread "schedstat TID RUN DELAY TIMES" (Documentation/
//                                       scheduler/sched-stats.rst) into MARKER
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_ns(uint64_t ns) {
  const struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  nanosleep(&t, NULL);
}

_Noreturn static void hog(uint64_t busy_ns, uint64_t idle_ns) {
  prctl(PR_SET_NAME, "plant-hog");
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(0, &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);
  for (;;) {
    const uint64_t end = now(CLOCK_THREAD_CPUTIME_ID) + busy_ns;
    while (now(CLOCK_THREAD_CPUTIME_ID) < end) {
      for (volatile int i = 0; i < 2000; ++i) {
      }
    }
    if (idle_ns != 0) sleep_ns(idle_ns);
  }
}

static int storm(const char* device) {
  prctl(PR_SET_NAME, "plant-storm");
  const int line = open(device, O_WRONLY | O_NOCTTY);
  if (line < 0) return perror(device), 1;
  char bytes[512];
  memset(bytes, 0, sizeof bytes);  // which a console does not show
  for (;;) {
    if (write(line, bytes, sizeof bytes) < 0) return perror(device), 1;
    sleep_ns(10000000);
  }
}

static void write_stat(int marker, const char* task) {
  char path[300], line[400];
  snprintf(path, sizeof path, "/proc/%s/schedstat", task);
  const int file = open(path, O_RDONLY);
  if (file < 0) return;
  int length = snprintf(line, sizeof line, "schedstat %s ", task);
  const ssize_t got = read(file, line + length, sizeof line - (size_t)length);
  close(file);
  if (got <= 0) return;
  length += (int)got;
  if (write(marker, line, (size_t)length) < 0) perror("trace_marker");
}

static int realtime(const char* pid) {
  char path[300];
  snprintf(path, sizeof path, "/proc/%s/task", pid);
  DIR* tasks = opendir(path);
  if (tasks == NULL) return perror(path), 1;
  const struct dirent* entry;
  const struct sched_param priority = {.sched_priority = 10};
  while ((entry = readdir(tasks)) != NULL) {
    if (entry->d_name[0] != '.' &&
        sched_setscheduler(atoi(entry->d_name), SCHED_FIFO, &priority) != 0)
      return perror("sched_setscheduler"), 1;
  }
  closedir(tasks);
  return 0;
}

// False once the process is gone.
static int write_stats(int marker, const char* pid) {
  char path[300];
  snprintf(path, sizeof path, "/proc/%s/task", pid);
  DIR* tasks = opendir(path);
  if (tasks == NULL) return 0;
  const struct dirent* entry;
  while ((entry = readdir(tasks)) != NULL) {
    if (entry->d_name[0] != '.') write_stat(marker, entry->d_name);
  }
  closedir(tasks);
  return 1;
}

static int watch(const char* path, uint64_t every_ns, char** pids) {
  prctl(PR_SET_NAME, "plant-watch");
  const int marker = open(path, O_WRONLY);
  if (marker < 0) return perror(path), 1;
  while (write_stats(marker, pids[0])) {
    for (char** pid = pids + 1; *pid != NULL; ++pid) write_stats(marker, *pid);
    sleep_ns(every_ns);
  }
  return 0;
}

int main(int count, char** arguments) {
  const char* what = count > 1 ? arguments[1] : "";
  const uint64_t kMs = 1000000;
  if (strcmp(what, "hog") == 0 && count == 4)
    hog(strtoull(arguments[2], NULL, 10) * kMs, strtoull(arguments[3], NULL, 10) * kMs);
  if (strcmp(what, "storm") == 0 && count == 3) return storm(arguments[2]);
  if (strcmp(what, "realtime") == 0 && count == 3) return realtime(arguments[2]);
  if (strcmp(what, "watch") == 0 && count > 4)
    return watch(arguments[2], strtoull(arguments[3], NULL, 10) * kMs, arguments + 4);
  fprintf(
      stderr,
      "usage: plant hog BUSY-MS IDLE-MS | storm DEVICE | realtime PID | watch MARKER MS PID...\n");
  return 2;
}
