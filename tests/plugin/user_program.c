/* What tests/plugin/user_mode.sh counts: calls of a thread, of a signal's handler, of a forked process. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline))

FUNCTION int leaf(int x) {
  __asm__ volatile("");
  return x + 1;
}
FUNCTION int twice(int x) {
  const int a = leaf(x);
  return a + leaf(a);
}
FUNCTION void* run_thread(void* sum) {
  for (int i = 0; i < 100; ++i) *(int*)sum += twice(i);
  return NULL;
}
FUNCTION void handle(int signal) { leaf(signal); }
FUNCTION int run_child(void) {
  int sum = 0;
  for (int i = 0; i < 7; ++i) sum += leaf(i);
  return sum & 1;
}

/* Each thread is there when the next one begins: QEMU numbers them on, though few live at once. */
FUNCTION void* run_chain(void* left) {
  pthread_t next;
  leaf(0);
  if ((long)left == 0) exit(3);
  if (pthread_create(&next, NULL, run_chain, (void*)((long)left - 1)) != 0) exit(1);
  pthread_detach(next);
  return NULL;
}

int main(int argc, char** argv) {
  int sum = 0, status = 0;
  char text[32];
  if (argc > 2) {
    run_chain((void*)atol(argv[2]));
    pause();
  }
  if (argc > 1) {
    leaf(0);
    execl("/bin/true", "true", (char*)NULL);
    return 1;
  }
  pthread_t thread;
  if (signal(SIGUSR1, handle) == SIG_ERR) return 1;
  if (pthread_create(&thread, NULL, run_thread, &sum) != 0) return 1;
  pthread_join(thread, NULL);
  for (int i = 0; i < 5; ++i) raise(SIGUSR1);
  for (int i = 0; i < 10; ++i) snprintf(text, sizeof text, "%d", twice(i));
  const pid_t child = fork();
  if (child == 0) exit(run_child());
  waitpid(child, &status, 0);
  printf("%s: %d, %d\n", argv[0], sum, WEXITSTATUS(status));
  return 0;
}
