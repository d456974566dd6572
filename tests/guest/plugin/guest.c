#include "guest.h"

#include "../sync.h"

static volatile u64 sink;
static volatile u64 ticks;
volatile u64 second_done;
static u64 jump_buffer[32];

NOINLINE u64 leaf(u64 value) { return value * 3 + 1; }

NOINLINE u64 fib(u64 n) {
  if (n < 2) return n;
  u64 a = fib(n - 1);
  BARRIER();
  u64 b = fib(n - 2);
  BARRIER();
  return a + b;
}

NOINLINE u64 recurse(u64 n) {
  if (n == 0) return 0;
  u64 below = recurse(n - 1);
  BARRIER();
  return below + 1;
}

NOINLINE u64 is_odd(u64 n);
NOINLINE u64 is_even(u64 n) { return n == 0 ? 1 : is_odd(n - 1); }
NOINLINE u64 is_odd(u64 n) { return n == 0 ? 0 : is_even(n - 1); }

NOINLINE u64 ping(u64 n);
NOINLINE u64 pong(u64 n) {
  if (n == 0) return 0;
  u64 r = ping(n - 1);
  BARRIER();
  return r + 1;
}
NOINLINE u64 ping(u64 n) {
  if (n == 0) return 0;
  u64 r = pong(n - 1);
  BARRIER();
  return r + 1;
}

NOINLINE u64 tail_last(u64 v) { return v + sink; }
NOINLINE u64 tail_middle(u64 v) { return tail_last(v + 1); }
NOINLINE u64 tail_first(u64 v) { return tail_middle(v + 1); }

NOINLINE u64 add_one(u64 v) { return v + 1 + sink; }
NOINLINE u64 add_two(u64 v) { return v + 2 + sink; }
NOINLINE u64 add_leaf(u64 v) {
  u64 r = leaf(v);
  BARRIER();
  return r;
}
static u64 (*volatile operations[3])(u64) = {add_one, add_two, add_leaf};

NOINLINE void call_pointers(void) {
  for (u64 i = 0; i < POINTER_CALLS; ++i) {
    sink = operations[i % 3](i);
    BARRIER();
  }
}

NOINLINE void jump_out(u64 depth) {
  if (depth == 0) machine_longjmp(jump_buffer, 1);
  jump_out(depth - 1);
  BARRIER();
}
NOINLINE void jump_once(void) {
  if (machine_setjmp(jump_buffer) == 0) jump_out(4);
  BARRIER();
}

NOINLINE void handle_timer(void) {
  u64 now = ticks + 1;
  ticks = now;
  sink = leaf(now);
  BARRIER();
  if (now >= TICKS) machine_stop_timer();
  BARRIER();
}
NOINLINE u64 work_leaf(u64 v) { return v ^ sink; }
NOINLINE u64 work_pointed(u64 v) {
  u64 r = work_leaf(v);
  BARRIER();
  return r;
}
static u64 (*volatile work_pointer)(u64) = work_pointed;

// Interrupts come anywhere in here: in leaves, between a call and its callee, before a return. A
// fixed number of rounds, long enough for all ticks; the rest of the ticks is waited for.
NOINLINE void work_until_ticks(void) {
  machine_start_timer();
  for (u64 i = 0; i < WORK_ROUNDS; ++i) {
    sink = work_leaf(i);
    BARRIER();
    sink = (*work_pointer)(i);
    BARRIER();
  }
  while (ticks < TICKS) BARRIER();
}

NOINLINE void handle_exception(void) {
  sink = leaf(1);
  BARRIER();
}
NOINLINE u64 handle_system_call(u64 number) {
  u64 r = leaf(number);
  BARRIER();
  return r;
}

NOINLINE void user_leaf(void) { BARRIER(); }
NOINLINE void user_main(void) {
  for (u64 i = 0; i < USER_CALLS; ++i) {
    user_leaf();
    BARRIER();
  }
  for (u64 i = 0; i < SYSTEM_CALLS; ++i) {
    machine_system_call(1);
    BARRIER();
  }
}

NOINLINE u64 second_leaf(u64 v) { return v + 1; }
NOINLINE u64 second_work(u64 v) {
  u64 r = second_leaf(v);
  BARRIER();
  return r;
}
NOINLINE void second_main(void) {
  for (u64 i = 0; i < SECOND_CALLS; ++i) {
    second_work(i);
    BARRIER();
  }
  second_done = 1;
}

NOINLINE void small_b(void) { BARRIER(); }
NOINLINE void small_a(void) {
  small_b();
  BARRIER();
  small_b();
  BARRIER();
}

// The magic no-op, twice: a series of one try, without a write.
TRAPLINE_INLINE void sync_once(void) {
  const struct trapline_reading none = {0, 0};
  trapline_noop(trapline_header(SYNC_SERIES, 0, TRAPLINE_BEFORE, TRAPLINE_NO_CLOCK), 0,
                sync_reading(), none);
  trapline_noop(trapline_header(SYNC_SERIES, 1, TRAPLINE_AFTER, TRAPLINE_NO_CLOCK), 0, none,
                sync_reading());
}

NOINLINE void guest_main(void) {
  sync_once();
  small_a();
  BARRIER();
  sink = fib(15);
  BARRIER();
  sink = recurse(DEPTH);
  BARRIER();
  sink = is_even(DEPTH);
  BARRIER();
  sink = ping(DEPTH);
  BARRIER();
  for (u64 i = 0; i < TAIL_CALLS; ++i) {
    sink = tail_first(i);
    BARRIER();
  }
  call_pointers();
  BARRIER();
  for (u64 i = 0; i < JUMPS; ++i) {
    jump_once();
    BARRIER();
  }
  for (u64 i = 0; i < EXCEPTIONS; ++i) {
    machine_exception();
    BARRIER();
  }
  for (u64 i = 0; i < SCRATCH_CALLS; ++i) {
    sink = machine_scratch(i);
    BARRIER();
  }
  machine_user(user_main);
  BARRIER();
  work_until_ticks();
  BARRIER();
  machine_second_cpu();
  BARRIER();
  machine_exit();
}
