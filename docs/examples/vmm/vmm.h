/* The parts of the example VMM: devices and the guest's image. vmm.c has the rest. */
#ifndef VMM_H
#define VMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An access of the guest to a port or an address that is no memory. Reads return 0 and writes do
 * nothing where there is no device. Each access is traced. */
uint64_t device_read(uint64_t address, unsigned size, bool is_port);
void device_write(uint64_t address, uint64_t value, unsigned size, bool is_port);

/* The value that the guest wrote to the debug-exit port, or -1 while it has written none. */
int device_exit_status(void);

/* Copies an ELF image with a PVH note into the guest's memory; its 32-bit entry, or 0 after it said
 * on standard error what is wrong. */
uint32_t load_image(const char* path, uint8_t* memory, size_t size);

#endif
