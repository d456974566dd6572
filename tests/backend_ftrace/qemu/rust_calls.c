// The calls of rust_calls.rs.
#include "qemu/osdep.h"
#include "trace-rust.h"

static void call_all(void) {
  void* address = (void*)0x1234;
  const char* text = "a 100% string";
  trace_rust_nothing();
  trace_rust_without_format(-7, text);
  trace_rust_strings(text, UINT64_MAX);
  trace_rust_small(true, 255, -32768, 'x');
  trace_rust_sizes(SIZE_MAX, -1, 5);
  trace_rust_pointers(address, address, address);
  trace_rust_never(1, text);
}

int main(void) {
  call_all();
  if (trace_event_get_state_backends(TRACE_RUST_NOTHING)) return 1;
  fake_switch_all(true);
  if (!trace_event_get_state_backends(TRACE_RUST_NOTHING)) return 1;
  if (trace_event_get_state_backends(TRACE_RUST_NEVER)) return 1;
  call_all();
  return 0;
}
