#ifndef FAKE_QEMU_MODULE_H
#define FAKE_QEMU_MODULE_H
#define trace_init(function) \
  static void __attribute__((constructor)) fake_init_##function(void) { function(); }
#endif
