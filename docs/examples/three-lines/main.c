/* The smallest program with events: three lines of trace-events, three calls. */
#include "trace-hello.h"

int main(int argc, char** argv) {
  trace_hello_start(argc);
  for (int i = 1; i < argc; i++) {
    trace_hello_word(i, argv[i]);
  }
  trace_hello_end();
  return 0;
}
