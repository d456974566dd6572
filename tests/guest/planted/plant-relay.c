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
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { kRounds = 20, kRelayMs = 10, kAll = 1000 };

static atomic_int state, rounds;

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_us(long us) {
  const struct timespec t = {0, us * 1000};
  nanosleep(&t, NULL);
}

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

// Writes to port 0x10 without end: each KVM_RUN returns after one write.
static int make_vcpu(void) {
  static const uint8_t kCode[] = {0xe6, 0x10, 0xeb, 0xfc};  // out 0x10, al; jmp
  const int kvm = open("/dev/kvm", O_RDWR), vm = ioctl(kvm, KVM_CREATE_VM, 0);
  if (vm < 0) return -1;
  ioctl(vm, KVM_SET_TSS_ADDR, 0xfffbd000);
  uint8_t* memory = mmap(NULL, 0x10000, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  memcpy(memory + 0x1000, kCode, sizeof kCode);
  struct kvm_userspace_memory_region region = {0, 0, 0, 0x10000, (uintptr_t)memory};
  ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region);
  const int vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
  struct kvm_sregs special;
  ioctl(vcpu, KVM_GET_SREGS, &special);
  special.cs.base = special.cs.selector = 0;
  ioctl(vcpu, KVM_SET_SREGS, &special);
  struct kvm_regs registers = {.rip = 0x1000, .rflags = 2};
  ioctl(vcpu, KVM_SET_REGS, &registers);
  mmap(NULL, (size_t)ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE, MAP_SHARED,
       vcpu, 0);
  return vcpu;
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
