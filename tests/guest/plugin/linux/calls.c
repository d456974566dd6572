// A program for a Linux guest, static and without optimisation, that says how often it called what:
// from loops under a timer's signals, from deep recursion, around longjmp, and from four threads.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

enum { kSignalled = 150000, kDeep = 2000, kJumps = 10, kThreads = 4, kInThread = 15000 };

static volatile long sum;
static volatile int handled;
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
  printf("CALLED leaf %d handler_leaf %d deep %d jump %d thread %d\n",
         kSignalled + kDeep + kJumps * 5 + kThreads * kInThread, handled, kDeep, kJumps * 6,
         kThreads);
  return 0;
}
