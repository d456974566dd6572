// VMMs that write no events: their vCPU threads' names, and their processes'.
#include "merge/analyze/vmm/vmms.h"

namespace trapline {
namespace {

class NamedThreads final : public VmmKnowledge {
 public:
  // `process` as the kernel keeps it: 15 characters at most.
  constexpr NamedThreads(std::string_view name, std::string_view thread, std::string_view process)
      : name_(name), thread_(thread), process_(process) {}

  std::string_view name() const override { return name_; }
  std::int32_t vcpu_of_thread(std::string_view comm) const override {
    return number_after_prefix(comm, thread_);
  }
  bool is_process(std::string_view comm) const override { return comm == process_; }

 private:
  std::string_view name_, thread_, process_;
};

}  // namespace

const VmmKnowledge& firecracker_vmm() {
  static const NamedThreads kVmm{"Firecracker", "fc_vcpu ", "firecracker"};
  return kVmm;
}
const VmmKnowledge& cloud_hypervisor_vmm() {
  static const NamedThreads kVmm{"Cloud Hypervisor", "vcpu", "cloud-hyperviso"};
  return kVmm;
}
const VmmKnowledge& crosvm_vmm() {
  static const NamedThreads kVmm{"crosvm", "crosvm_vcpu", "crosvm"};
  return kVmm;
}
const VmmKnowledge& kvmtool_vmm() {
  static const NamedThreads kVmm{"kvmtool", "kvm-vcpu-", "lkvm"};
  return kVmm;
}

}  // namespace trapline
