// A program for a Linux guest, static and without optimisation, that says how often it called what:
// from loops under a timer's signals, from deep recursion, around longjmp, from four threads, and
// from one that is moved between two processors all the time.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

enum { kSignalled = 150000, kDeep = 2000, kJumps = 10, kThreads = 4, kInThread = 15000 };
enum { kMoved = 500000 };

static volatile long sum;
static volatile int handled, moved_ended;
static jmp_buf back;

__attribute__((noinline)) void leaf(int x) { sum += x; }
__attribute__((noinline)) void handler_leaf(int x) { sum += x; }

static void on_alarm(int number) {
  handler_leaf(number);
  ++handled;
}

static void deep(int n) {
  leaf(n);
  if (n > 1) deep(n - 1);
}

static void jump(int n) {
  if (n == 0) longjmp(back, 1);
  leaf(n);
  jump(n - 1);
}

static void* thread(void* nothing) {
  for (int i = 0; i < kInThread; ++i) {
    leaf(i);
    if (i % 1000 == 0) sched_yield();
  }
  return nothing;
}

static void* moved_thread(void* nothing) {
  for (int i = 0; i < kMoved; ++i) {
    leaf(i);
    if (i % 100 == 0) sched_yield();
  }
  moved_ended = 1;
  return nothing;
}

static void move_a_thread(void) {
  pthread_t moved;
  pthread_create(&moved, NULL, moved_thread, NULL);
  for (int processor = 0; !moved_ended; processor ^= 1) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    pthread_setaffinity_np(moved, sizeof set, &set);
    usleep(200);
  }
  pthread_join(moved, NULL);
}

int main(void) {
  const struct itimerval each = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
  signal(SIGALRM, on_alarm);
  setitimer(ITIMER_REAL, &each, NULL);
  for (int i = 0; i < kSignalled; ++i) leaf(i);
  setitimer(ITIMER_REAL, &off, NULL);
  deep(kDeep);
  for (int i = 0; i < kJumps; ++i)
    if (setjmp(back) == 0) jump(5);
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, thread, NULL);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  move_a_thread();
  printf("CALLED leaf %d handler_leaf %d deep %d jump %d thread %d\n",
         kSignalled + kDeep + kJumps * 5 + kThreads * kInThread + kMoved, handled, kDeep,
         kJumps * 6, kThreads);
  return 0;
}
