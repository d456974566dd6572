#include "merge/analyze/vmm/vmms.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace trapline::test {
namespace {

// The vCPU that the VMM of that name sees in a thread's name.
std::int32_t vcpu_seen_by(std::string_view name, std::string_view comm) {
  for (const Vmm& vmm : vmms())
    if (vmm.name == name) return vmm.vcpu_of_thread(comm);
  ADD_FAILURE() << "no VMM is called " << name;
  return kNoVcpu;
}

TEST(VmmsTest, EachVmmNamesTheThreadsOfItsVcpus) {
  EXPECT_EQ(vcpu_seen_by("QEMU", "CPU 0/KVM"), 0);
  EXPECT_EQ(vcpu_seen_by("QEMU", "CPU 127/TCG"), 127);
  EXPECT_EQ(vcpu_seen_by("Firecracker", "fc_vcpu 3"), 3);
  EXPECT_EQ(vcpu_seen_by("Cloud Hypervisor", "vcpu12"), 12);
  EXPECT_EQ(vcpu_seen_by("crosvm", "crosvm_vcpu4"), 4);
  EXPECT_EQ(vcpu_seen_by("kvmtool", "kvm-vcpu-5"), 5);
  EXPECT_EQ(vcpu_seen_by("vmm_device events", "vmm_vcpu 1"), 1);
}

TEST(VmmsTest, AThreadsNameIsOneVmms) {
  for (const std::string comm : {"CPU 2/KVM", "fc_vcpu 2", "vcpu2", "crosvm_vcpu2", "kvm-vcpu-2"}) {
    EXPECT_EQ(vcpu_of_name(comm), 2) << comm;
    int known = 0;
    for (const Vmm& vmm : vmms()) known += vmm.vcpu_of_thread(comm) != kNoVcpu;
    EXPECT_EQ(known, 1) << comm;
  }
}

TEST(VmmsTest, OtherNamesAreNoVcpus) {
  for (const auto* other : {"",
                            "CPU ",
                            "CPU /KVM",
                            "CPU -1/KVM",
                            "CPU 1",
                            "CPU 1/HVF",
                            "CPU 1/KVMx",
                            "/KVM",
                            "CPU 99999999999/KVM",
                            "qemu-system-x86",
                            "fc_vcpu",
                            "fc_vcpu ",
                            "fc_vcpu x",
                            "fc_vcpu3",
                            "vcpu",
                            "vcpu-1",
                            "vcpu+1",
                            "vcpu1a",
                            "vcpu 1",
                            "vcpu99999999999",
                            "crosvm_vcpu",
                            "crosvm_vcpu_1",
                            "kvm-vcpu-",
                            "kvm-vcpu--1",
                            "kvm-vcpu1"}) {
    EXPECT_EQ(vcpu_of_name(other), kNoVcpu) << other;
  }
}

TEST(VmmsTest, ProcessesAreKnownByTheNameThatTheKernelKeeps) {
  for (const std::string comm :
       {"qemu-system-x86", "qemu-kvm", "firecracker", "cloud-hyperviso", "crosvm", "lkvm"}) {
    EXPECT_TRUE(is_vmm_process(comm)) << comm;
    EXPECT_LT(comm.size(), 16u) << "the kernel keeps 15 characters";
  }
  for (const auto* other : {"", "bash", "vcpu0", "firecracker-con", "cloud-hypervisor"}) {
    EXPECT_FALSE(is_vmm_process(other)) << other;
  }
}

TEST(VmmsTest, NoEventNameMeansTwoThings) {
  for (const auto* name : {"memory_region_ops_read", "kvm_run_exit", "kvm_set_irq", "e1000_irq",
                           "vmm_device_read", "vmm_device_write"}) {
    int known = 0;
    for (const Vmm& vmm : vmms()) known += vmm.event(name) != nullptr;
    EXPECT_LE(known, 1) << name;
    EXPECT_EQ(vmm_event_meaning(name) != nullptr, known == 1) << name;
  }
}

TEST(VmmsTest, EveryVmmHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const Vmm& vmm : vmms()) {
    EXPECT_FALSE(vmm.name.empty());
    EXPECT_TRUE(names.insert(vmm.name).second) << vmm.name;
  }
}

}  // namespace
}  // namespace trapline::test
