// A virtual machine of one vCPU for what is planted: its thread alternates between the guest, which
// writes to port 0x10 without end (each KVM_RUN returns after one write), and a wait in user space.
// Include it after _GNU_SOURCE is defined.
#pragma once

#include <fcntl.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

// The descriptor of the vCPU; below 0 with errno set where there is no KVM.
static int make_vcpu(void) {
  static const uint8_t kCode[] = {0xe6, 0x10, 0xeb, 0xfc};  // out 0x10, al; jmp
  const int kvm = open("/dev/kvm", O_RDWR), vm = ioctl(kvm, KVM_CREATE_VM, 0);
  if (vm < 0) return -1;
  ioctl(vm, KVM_SET_TSS_ADDR, 0xfffbd000);
  uint8_t* memory = mmap(NULL, 0x10000, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  memcpy(memory + 0x1000, kCode, sizeof kCode);
  struct kvm_userspace_memory_region region = {0, 0, 0, 0x10000, (uintptr_t)memory};
  ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region);
  const int vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
  struct kvm_sregs special;
  ioctl(vcpu, KVM_GET_SREGS, &special);
  special.cs.base = special.cs.selector = 0;
  ioctl(vcpu, KVM_SET_SREGS, &special);
  struct kvm_regs registers = {.rip = 0x1000, .rflags = 2};
  ioctl(vcpu, KVM_SET_REGS, &registers);
  mmap(NULL, (size_t)ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE, MAP_SHARED,
       vcpu, 0);
  return vcpu;
}
