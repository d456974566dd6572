// Any VMM that tells of its devices through libtrapline_ftrace, by two events of this convention
// (docs/vmm.md; docs/examples/vmm is one):
//
//   vmm_device_read(uint64_t addr, uint64_t value, unsigned size, const char *name)
//   vmm_device_write(...)   "addr 0x%"PRIx64" value 0x%"PRIx64" size %u name '%s'"
#include "merge/analyze/vmm/vmms.h"

namespace trapline {
namespace {

constexpr VmmEventField kDeviceAddress{"addr", " addr 0x"};
constexpr VmmEventField kDeviceName{"name", " name '"};
constexpr VmmEventMeaning kDeviceRead{VmmEventKind::kRegionRead, kDeviceAddress, kDeviceName, {}};
constexpr VmmEventMeaning kDeviceWrite{VmmEventKind::kRegionWrite, kDeviceAddress, kDeviceName, {}};

class DeviceEvents final : public VmmKnowledge {
 public:
  std::string_view name() const override { return "vmm_device events"; }
  std::int32_t vcpu_of_thread(std::string_view comm) const override {
    return number_after_prefix(comm, "vmm_vcpu ");
  }
  bool is_process(std::string_view) const override { return false; }
  const VmmEventMeaning* event(std::string_view event_name) const override {
    if (event_name == "vmm_device_read") return &kDeviceRead;
    return event_name == "vmm_device_write" ? &kDeviceWrite : nullptr;
  }
};

}  // namespace

const VmmKnowledge& device_events_vmm() {
  static const DeviceEvents kVmm;
  return kVmm;
}

}  // namespace trapline
