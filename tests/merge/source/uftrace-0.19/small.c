#include <unistd.h>
__attribute__((noinline)) long mix(long a, const char* p) {
  usleep(50);
  return a * 7 + p[0];
}
__attribute__((noinline)) const char* name(const char* s) {
  __asm__ volatile("");
  return s + 1;
}
int main(void) {
  long sum = 0;
  for (int i = 0; i < 3; i++) sum += mix(-i, "text") + name("hello")[0];
  return sum == 1;
}
