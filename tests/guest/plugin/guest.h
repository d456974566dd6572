// The guest whose calls the plugin's tests count. Freestanding; one source for all architectures,
// with the machine's part in <arch>.S and <arch>.c. Every function's number of calls follows from
// the source: tests/plugin/counts.h has the list.
#pragma once

#define NOINLINE __attribute__((noinline, used))
// After a call: what follows depends on nothing that may move, so that no compiler turns a
// recursion into a loop or a call into a jump.
#define BARRIER() __asm__ volatile("" ::: "memory")

typedef unsigned long u64;

#define TICKS 20
#define EXCEPTIONS 10
#define SYSTEM_CALLS 5
#define USER_CALLS 7
#define JUMPS 50
#define POINTER_CALLS 300
#define TAIL_CALLS 100
#define DEPTH 3000
#define SYNC_SERIES 4711
#define SCRATCH_CALLS 30
#define SECOND_CALLS 40
#define WORK_ROUNDS 200000

// machine part
void machine_start_timer(void);
void machine_stop_timer(void);
void machine_exception(void);  // one instruction that traps; the handler steps over it
void machine_user(void (*function)(void));
u64 machine_system_call(u64 number);
void machine_second_cpu(void);  // starts it in second_main(); nothing where there is none
void machine_exit(void);
// Assembly: uses the frame pointer as scratch, calls leaf(), and has a part elsewhere, to which it
// jumps and from which it jumps back.
u64 machine_scratch(u64 value);
int machine_setjmp(u64* buffer);
void machine_longjmp(u64* buffer, int value) __attribute__((noreturn));

// common part, called from the machine's
void handle_timer(void);
void handle_exception(void);
u64 handle_system_call(u64 number);
void second_main(void);
void guest_main(void);
u64 leaf(u64 value);
