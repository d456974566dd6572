// A virtual machine of one vCPU whose thread waits, in turn, for a lock behind two others that hold
// it one after the other, and for a futex that is no lock:
//
//   holderA ── lock ── 20 ms ──────────────── unlock
//   secondB ──────── lock: waits ············ 10 ms ── unlock
//   vcpu0   ─────────────── lock: waits ···················· · │ FUTEX_WAIT … notifier: FUTEX_WAKE
//
// Prints for each round, in nanoseconds of CLOCK_MONOTONIC, "A|B FROM TO" (who held the lock when)
// and "lock|event FROM TO" (when the vCPU's thread waited). For the tests of `trapline report
// --waits`.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plant.h"
#include "vcpu.h"

enum { kRounds = 20, kHeldMs = 20, kSecondMs = 10, kSpans = 4 * kRounds };
// A round's steps: phase is kSteps * round + step, and only grows.
enum { kHold = 1, kQueue, kLock, kWait, kDone, kSteps };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int phase, event;
static struct span {
  const char* what;
  uint64_t from, to;
} spans[kSpans];
static atomic_int count;

static void tell(const char* what, uint64_t from) {
  spans[atomic_fetch_add(&count, 1)] = (struct span){what, from, now()};
}

static void until(int round, int step) {
  while (atomic_load(&phase) < kSteps * round + step) sleep_us(200);
}

static void reach(int round, int step) { atomic_store(&phase, kSteps * round + step); }

// Since `from`, for so long from now on.
static void hold(const char* what, uint64_t from, int ms) {
  const uint64_t end = now() + (uint64_t)ms * 1000000u;
  while (now() < end) {
  }
  tell(what, from);
}

static void* first(void* unused) {
  prctl(PR_SET_NAME, "holderA");
  for (int i = 0; i < kRounds; ++i) {
    until(i, kHold);
    pthread_mutex_lock(&lock);
    const uint64_t from = now();
    reach(i, kQueue);
    until(i, kLock);
    hold("A", from, kHeldMs);
    pthread_mutex_unlock(&lock);
  }
  return unused;
}

static void* second(void* unused) {
  prctl(PR_SET_NAME, "secondB");
  for (int i = 0; i < kRounds; ++i) {
    until(i, kQueue);
    pthread_mutex_lock(&lock);
    hold("B", now(), kSecondMs);
    pthread_mutex_unlock(&lock);
  }
  return unused;
}

static void* notify(void* unused) {
  prctl(PR_SET_NAME, "notifier");
  for (int i = 0; i < kRounds; ++i) {
    until(i, kWait);
    sleep_us(5000);
    atomic_store(&event, 1);
    syscall(SYS_futex, &event, FUTEX_WAKE, 1000, NULL, NULL, 0);
  }
  return unused;
}

int main(void) {
  const int vcpu = make_vcpu();
  if (vcpu < 0) return perror("/dev/kvm"), 1;
  pthread_t thread;
  pthread_create(&thread, NULL, first, NULL);
  pthread_create(&thread, NULL, second, NULL);
  pthread_create(&thread, NULL, notify, NULL);
  prctl(PR_SET_NAME, "CPU 0/KVM");
  for (int i = 0; i < kRounds; ++i) {
    ioctl(vcpu, KVM_RUN, 0);
    reach(i, kHold);
    until(i, kQueue);
    sleep_us(5000);  // secondB waits for the lock by now
    reach(i, kLock);
    uint64_t from = now();
    pthread_mutex_lock(&lock);
    tell("lock", from);
    pthread_mutex_unlock(&lock);
    ioctl(vcpu, KVM_RUN, 0);
    atomic_store(&event, 0);
    reach(i, kWait);
    from = now();
    while (!atomic_load(&event)) syscall(SYS_futex, &event, FUTEX_WAIT, 0, NULL, NULL, 0);
    tell("event", from);
    reach(i, kDone);
    sleep_us(3000);
  }
  ioctl(vcpu, KVM_RUN, 0);
  for (int i = 0; i < count; ++i)
    printf("%s %llu %llu\n", spans[i].what, (unsigned long long)spans[i].from,
           (unsigned long long)spans[i].to);
  return 0;
}
