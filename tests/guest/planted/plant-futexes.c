// A virtual machine of one vCPU whose thread is kept waiting in ways that look like a lock's in the
// calls of futex(). On one CPU, 10 rounds each; prints "NAME FROM TO" in nanoseconds of
// CLOCK_MONOTONIC for each: who woke the thread, or who owned the lock when.
//
//   stolen    thief ── PI lock ── 8 ms ── unlock · lock again ── 12 ms ── unlock
//             heir  ─────────── waits, is handed the lock, loses it ····· 4 ms ── unlock
//             vcpu0 ──────────────── waits ······································· │
//   signaled  it waits for a futex, is woken, and reads an eventfd, which the thread that called
//             FUTEX_WAKE of that futex (where nobody waits any more) writes: no futex
//   requeued  it waits for one futex, is moved to another one, and woken there: FUTEX_CMP_REQUEUE
//   robust    the owner of a robust mutex ends without letting go of it: no call of futex()
//   ring      it waits in io_uring_enter() for a read of an eventfd
//
// For the tests of `trapline report --waits`.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "plant.h"
#include "vcpu.h"

enum { kRounds = 10, kFirstMs = 8, kStolenMs = 12, kHeirMs = 4, kWaitMs = 5, kSpans = 100 };

static struct span {
  const char* name;
  uint64_t from, to;
} spans[kSpans];
static atomic_int count, step, word, other;
static atomic_uint pi;
static int eventfd_of_vcpu, vcpu;

static void tell(const char* name, uint64_t from) {
  const int at = atomic_fetch_add(&count, 1);
  if (at < kSpans) spans[at] = (struct span){name, from, now()};
}

static void until(int value) {
  while (atomic_load(&step) < value) sleep_us(300);
}

static void compute(int ms) {
  const uint64_t end = now() + (uint64_t)ms * 1000000u;
  while (now() < end) {
  }
}

static long call(void* address, int operation, unsigned value) {
  return syscall(SYS_futex, address, operation, value, NULL, NULL, 0);
}

// As glibc's mutexes with PTHREAD_PRIO_INHERIT do it.
static void lock_pi(void) {
  unsigned none = 0;
  if (!atomic_compare_exchange_strong(&pi, &none, (unsigned)gettid())) call(&pi, FUTEX_LOCK_PI, 0);
}

static void unlock_pi(void) {
  unsigned mine = (unsigned)gettid();
  if (!atomic_compare_exchange_strong(&pi, &mine, 0)) call(&pi, FUTEX_UNLOCK_PI, 0);
}

// Of a real-time policy: it takes the lock again before the heir gets the CPU.
static void* thief(void* unused) {
  prctl(PR_SET_NAME, "thief");
  const struct sched_param priority = {.sched_priority = 10};
  sched_setscheduler(0, SCHED_FIFO, &priority);
  lock_pi();
  const uint64_t from = now();
  atomic_store(&step, 1);
  until(3);
  compute(kFirstMs);
  unlock_pi();
  lock_pi();
  compute(kStolenMs);
  tell("thief", from);
  unlock_pi();
  return unused;
}

static void* heir(void* unused) {
  prctl(PR_SET_NAME, "heir");
  until(1);
  atomic_store(&step, 2);
  lock_pi();
  const uint64_t from = now();
  compute(kHeirMs);
  tell("heir", from);
  unlock_pi();
  return unused;
}

static void* signaler(void* unused) {
  prctl(PR_SET_NAME, "signaler");
  until(1);
  sleep_us(1000 * kWaitMs);
  atomic_store(&word, 1);
  call(&word, FUTEX_WAKE, 1);
  until(2);
  sleep_us(1000 * kWaitMs);
  call(&word, FUTEX_WAKE, 1);
  const uint64_t one = 1;
  if (write(eventfd_of_vcpu, &one, sizeof one) < 0) perror("eventfd");
  return unused;
}

static void* requeuer(void* unused) {
  prctl(PR_SET_NAME, "requeuer");
  until(1);
  sleep_us(1000 * kWaitMs);
  atomic_store(&word, 3);
  if (syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE, 0, 1L, &other, 3) < 0) perror("requeue");
  sleep_us(1000 * kWaitMs);
  call(&other, FUTEX_WAKE, 1);
  return unused;
}

static pthread_mutex_t robust;

static void* owner(void* unused) {
  prctl(PR_SET_NAME, "owner");
  pthread_mutex_lock(&robust);
  atomic_store(&step, 1);
  until(2);
  sleep_us(1000 * kWaitMs);
  return unused;
}

static void* ringer(void* unused) {
  prctl(PR_SET_NAME, "ringer");
  until(1);
  sleep_us(1000 * kWaitMs);
  const uint64_t one = 1;
  if (write(eventfd_of_vcpu, &one, sizeof one) < 0) perror("eventfd");
  return unused;
}

static void wait_stolen(void) {
  until(2);
  sleep_us(2000);  // the heir waits first
  const uint64_t from = now();
  atomic_store(&step, 3);
  lock_pi();
  tell("stolen", from);
  unlock_pi();
}

static void read_event(void) {
  uint64_t got;
  if (read(eventfd_of_vcpu, &got, sizeof got) < 0) perror("eventfd");
}

static void wait_signaled(void) {
  atomic_store(&word, 2);
  uint64_t from = now();
  atomic_store(&step, 1);
  while (atomic_load(&word) == 2) call(&word, FUTEX_WAIT, 2);
  tell("futex", from);
  from = now();
  atomic_store(&step, 2);
  read_event();
  tell("eventfd", from);
}

static void wait_requeued(void) {
  atomic_store(&word, 2);
  const uint64_t from = now();
  atomic_store(&step, 1);
  call(&word, FUTEX_WAIT, 2);
  tell("requeued", from);
}

static void wait_robust(void) {
  until(1);
  const uint64_t from = now();
  atomic_store(&step, 2);
  if (pthread_mutex_lock(&robust) != EOWNERDEAD) fprintf(stderr, "the owner is not dead\n");
  tell("robust", from);
  pthread_mutex_unlock(&robust);
}

static struct ring {
  int fd;
  _Atomic unsigned *tail, *head, *done;  // of what is submitted; of what is completed
  unsigned *array, mask;
  struct io_uring_sqe* entries;
} ring = {.fd = -1};

static int make_ring(void) {
  struct io_uring_params params;
  memset(&params, 0, sizeof params);
  ring.fd = (int)syscall(SYS_io_uring_setup, 4, &params);
  if (ring.fd < 0) return -1;
  const size_t submitted = params.sq_off.array + params.sq_entries * sizeof(unsigned);
  const size_t completed = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
  const size_t size = submitted > completed ? submitted : completed;
  char* queue = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd,
                     IORING_OFF_SQ_RING);
  ring.tail = (_Atomic unsigned*)(queue + params.sq_off.tail);
  ring.head = (_Atomic unsigned*)(queue + params.cq_off.head);
  ring.done = (_Atomic unsigned*)(queue + params.cq_off.tail);
  ring.array = (unsigned*)(queue + params.sq_off.array);
  ring.mask = *(unsigned*)(queue + params.sq_off.ring_mask);
  ring.entries = mmap(NULL, params.sq_entries * sizeof *ring.entries, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQES);
  return 0;
}

static void wait_ring(void) {
  static uint64_t got;
  const unsigned at = *ring.tail & ring.mask;
  ring.entries[at] = (struct io_uring_sqe){
      .opcode = IORING_OP_READ, .fd = eventfd_of_vcpu, .addr = (uintptr_t)&got, .len = sizeof got};
  ring.array[at] = at;
  atomic_fetch_add(ring.tail, 1);
  const uint64_t from = now();
  atomic_store(&step, 1);
  syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
  if (*ring.head == *ring.done) fprintf(stderr, "io_uring_enter() did not wait\n");
  tell("ring", from);
  atomic_store(ring.head, *ring.done);
}

static void play(void* (*one)(void*), void* (*two)(void*), void (*wait)(void)) {
  for (int i = 0; i < kRounds; ++i) {
    pthread_t first, second;
    atomic_store(&step, 0);
    pthread_create(&first, NULL, one, NULL);
    if (two != NULL) pthread_create(&second, NULL, two, NULL);
    ioctl(vcpu, KVM_RUN, 0);
    wait();
    ioctl(vcpu, KVM_RUN, 0);
    pthread_join(first, NULL);
    if (two != NULL) pthread_join(second, NULL);
    ioctl(vcpu, KVM_RUN, 0);
  }
}

int main(void) {
  vcpu = make_vcpu();
  if (vcpu < 0) return perror("/dev/kvm"), 1;
  eventfd_of_vcpu = eventfd(0, 0);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  prctl(PR_SET_NAME, "CPU 0/KVM");
  play(thief, heir, wait_stolen);
  play(signaler, NULL, wait_signaled);
  play(requeuer, NULL, wait_requeued);
  for (int i = 0; i < kRounds; ++i) {
    pthread_mutex_init(&robust, &attributes);
    pthread_t thread;
    atomic_store(&step, 0);
    pthread_create(&thread, NULL, owner, NULL);
    ioctl(vcpu, KVM_RUN, 0);
    wait_robust();
    ioctl(vcpu, KVM_RUN, 0);
    pthread_join(thread, NULL);
    pthread_mutex_destroy(&robust);
  }
  if (make_ring() == 0) {
    play(ringer, NULL, wait_ring);
  } else {
    perror("io_uring");
  }
  ioctl(vcpu, KVM_RUN, 0);
  for (int i = 0; i < count && i < kSpans; ++i)
    printf("%s %llu %llu\n", spans[i].name, (unsigned long long)spans[i].from,
           (unsigned long long)spans[i].to);
  return 0;
}
