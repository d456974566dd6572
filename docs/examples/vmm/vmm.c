/* A small VMM on /dev/kvm: 64 MiB of memory, one vCPU in 32-bit protected mode without paging (the
 * state in which a PVH image starts), and the devices of devices.c.
 *
 *   vmm IMAGE       runs it until it writes to the debug-exit port; that value is the exit status
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vmm.h"

enum { kMemory = 64 << 20, kMostCpuid = 256, kFailed = 125 };

struct vm {
  int kvm, fd, vcpu;
  uint8_t* memory;
  struct kvm_run* run;
  size_t run_size;
  int status;
};

static int check(int result, const char* what) {
  if (result >= 0) return result;
  fprintf(stderr, "vmm: %s: %s\n", what, strerror(errno));
  exit(kFailed);
}

static void make_vm(struct vm* vm) {
  vm->kvm = check(open("/dev/kvm", O_RDWR | O_CLOEXEC), "/dev/kvm");
  vm->fd = check(ioctl(vm->kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
  /* What VMX wants to have somewhere outside of the guest's memory. */
  check(ioctl(vm->fd, KVM_SET_TSS_ADDR, 0xfffbd000ul), "KVM_SET_TSS_ADDR");
  vm->memory = mmap(NULL, kMemory, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (vm->memory == MAP_FAILED) check(-1, "the guest's memory");
  struct kvm_userspace_memory_region region = {.memory_size = kMemory,
                                               .userspace_addr = (uintptr_t)vm->memory};
  check(ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &region), "KVM_SET_USER_MEMORY_REGION");
}

/* All that the host can give: long mode is a CPUID bit. */
static void set_cpuid(struct vm* vm) {
  struct kvm_cpuid2* cpuid = calloc(1, sizeof *cpuid + kMostCpuid * sizeof *cpuid->entries);
  if (cpuid == NULL) check(-1, "memory");
  cpuid->nent = kMostCpuid;
  check(ioctl(vm->kvm, KVM_GET_SUPPORTED_CPUID, cpuid), "KVM_GET_SUPPORTED_CPUID");
  check(ioctl(vm->vcpu, KVM_SET_CPUID2, cpuid), "KVM_SET_CPUID2");
  free(cpuid);
}

static void set_registers(struct vm* vm, uint32_t entry) {
  struct kvm_sregs special;
  struct kvm_regs registers = {.rip = entry, .rflags = 2};
  struct kvm_segment data = {
      .limit = 0xffffffff, .selector = 16, .type = 3, .present = 1, .db = 1, .s = 1, .g = 1};
  check(ioctl(vm->vcpu, KVM_GET_SREGS, &special), "KVM_GET_SREGS");
  special.ds = special.es = special.fs = special.gs = special.ss = data;
  special.cs = data;
  special.cs.selector = 8;
  special.cs.type = 11;
  special.cr0 = 0x11; /* protection, extension type */
  check(ioctl(vm->vcpu, KVM_SET_SREGS, &special), "KVM_SET_SREGS");
  check(ioctl(vm->vcpu, KVM_SET_REGS, &registers), "KVM_SET_REGS");
}

static void make_vcpu(struct vm* vm, uint32_t entry) {
  vm->vcpu = check(ioctl(vm->fd, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU");
  vm->run_size = (size_t)check(ioctl(vm->kvm, KVM_GET_VCPU_MMAP_SIZE, 0), "KVM_GET_VCPU_MMAP_SIZE");
  vm->run = mmap(NULL, vm->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, vm->vcpu, 0);
  if (vm->run == MAP_FAILED) check(-1, "the vCPU's memory");
  set_cpuid(vm);
  set_registers(vm, entry);
}

static void serve_port(struct kvm_run* run) {
  uint8_t* data = (uint8_t*)run + run->io.data_offset;
  for (uint32_t i = 0; i < run->io.count; i++, data += run->io.size) {
    uint64_t value = 0;
    if (run->io.direction == KVM_EXIT_IO_OUT) {
      memcpy(&value, data, run->io.size);
      device_write(run->io.port, value, run->io.size, true);
    } else {
      value = device_read(run->io.port, run->io.size, true);
      memcpy(data, &value, run->io.size);
    }
  }
}

static void serve_mmio(struct kvm_run* run) {
  uint64_t value = 0;
  if (run->mmio.is_write) {
    memcpy(&value, run->mmio.data, run->mmio.len);
    device_write(run->mmio.phys_addr, value, run->mmio.len, false);
  } else {
    value = device_read(run->mmio.phys_addr, run->mmio.len, false);
    memcpy(run->mmio.data, &value, run->mmio.len);
  }
}

static void* run_vcpu(void* argument) {
  struct vm* vm = argument;
  while (device_exit_status() < 0) {
    if (ioctl(vm->vcpu, KVM_RUN, 0) < 0) {
      if (errno == EINTR) continue;
      check(-1, "KVM_RUN");
    }
    switch (vm->run->exit_reason) {
      case KVM_EXIT_IO:
        serve_port(vm->run);
        break;
      case KVM_EXIT_MMIO:
        serve_mmio(vm->run);
        break;
      default:
        fprintf(stderr, "vmm: the guest stopped with exit reason %u\n", vm->run->exit_reason);
        vm->status = kFailed;
        return NULL;
    }
  }
  vm->status = device_exit_status();
  return NULL;
}

int main(int argc, char** argv) {
  struct vm vm = {.status = kFailed};
  pthread_t thread;
  if (argc != 2) {
    fprintf(stderr, "usage: vmm IMAGE\n");
    return 2;
  }
  make_vm(&vm);
  uint32_t entry = load_image(argv[1], vm.memory, kMemory);
  if (entry == 0) return kFailed;
  make_vcpu(&vm, entry);
  if (pthread_create(&thread, NULL, run_vcpu, &vm) != 0) check(-1, "the vCPU's thread");
  pthread_setname_np(thread, "vmm_vcpu 0"); /* the report finds the vCPU's number here */
  pthread_join(thread, NULL);
  fflush(stdout);
  return vm.status;
}
