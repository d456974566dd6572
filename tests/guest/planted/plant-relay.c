// A virtual machine of one vCPU whose thread waits for a state that another thread passes on; the
// state has a contended lock's value (2) for a while, and there is no lock:
//
//   chief ── 1 ── 2 ────────── 3 ┐
//   relay ─────────── waits at 2 └─ 10 ms ── 4 ┐
//   vcpu0 ───────────── waits at 2 ··········· └─
//
// Each wakes one thread, as the one that lets go of a lock does. For the tests of `trapline report
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

enum { kRounds = 20, kRelayMs = 10, kAll = 1000 };

static atomic_int state, rounds;

static void while_it_is(int value) {
  while (atomic_load(&state) == value) syscall(SYS_futex, &state, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void after_round(int i) {
  while (atomic_load(&rounds) <= i) sleep_us(500);
}

static void become(int value, int wake) {
  atomic_store(&state, value);
  syscall(SYS_futex, &state, FUTEX_WAKE, wake, NULL, NULL, 0);
}

static void* relay(void* unused) {
  prctl(PR_SET_NAME, "relay");
  for (int i = 0; i < kRounds; ++i) {
    for (int value = 0; value < 3; ++value) while_it_is(value);
    const uint64_t end = now() + kRelayMs * 1000000u;
    while (now() < end) {
    }
    become(4, 1);
    after_round(i);
  }
  return unused;
}

static void* chief(void* unused) {
  prctl(PR_SET_NAME, "chief");
  for (int i = 0; i < kRounds; ++i) {
    sleep_us(3000);
    become(1, kAll);
    sleep_us(3000);
    become(2, kAll);
    sleep_us(8000);
    become(3, 1);
    after_round(i);
  }
  return unused;
}

int main(void) {
  const int vcpu = make_vcpu();
  if (vcpu < 0) return perror("/dev/kvm"), 1;
  pthread_t thread;
  pthread_create(&thread, NULL, relay, NULL);
  pthread_create(&thread, NULL, chief, NULL);
  prctl(PR_SET_NAME, "CPU 0/KVM");
  for (int i = 0; i < kRounds; ++i) {
    ioctl(vcpu, KVM_RUN, 0);
    while (atomic_load(&state) != 2) sleep_us(500);
    sleep_us(2000);  // the relay waits first
    while_it_is(2);
    while_it_is(3);
    ioctl(vcpu, KVM_RUN, 0);
    become(0, kAll);
    atomic_fetch_add(&rounds, 1);
    sleep_us(5000);
  }
  ioctl(vcpu, KVM_RUN, 0);
  return 0;
}
