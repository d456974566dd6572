// What the benchmark runs: WORK 1 nothing but calls (fib), WORK 2 no calls (a sieve). The same
// machine parts as the other guest.
#include "idle.h"

static volatile u64 sink;

NOINLINE u64 fib(u64 n) {
  if (n < 2) return n;
  u64 a = fib(n - 1);
  BARRIER();
  u64 b = fib(n - 2);
  BARRIER();
  return a + b;
}

enum { kSize = 200000 };
static unsigned char composite[kSize];
NOINLINE u64 sieve(void) {
  u64 primes = 0;
  for (u64 i = 0; i < kSize; ++i) composite[i] = 0;
  for (u64 i = 2; i < kSize; ++i) {
    if (composite[i]) continue;
    ++primes;
    for (u64 j = i * 2; j < kSize; j += i) composite[j] = 1;
  }
  return primes;
}

NOINLINE void guest_main(void) {
#if WORK == 1
  sink = fib(33);  // 11.4 million calls
#else
  for (int i = 0; i < ROUNDS; ++i) sink = sieve();
#endif
  machine_exit();
}
