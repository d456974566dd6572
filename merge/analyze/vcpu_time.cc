#include "merge/analyze/vcpu_time.h"

#include <utility>

namespace trapline {

void OwnTime::add(const OwnTime& other) {
  GuestTime::add(other);
  devices_at_most_ns += other.devices_at_most_ns;
  vmm_events += other.vmm_events;
  const bool both = device != kNoName && other.device != kNoName && device != other.device;
  several_devices = several_devices || other.several_devices || both;
  if (other.device != kNoName) device = other.device;
  if (other.vmm_event != kNoName) vmm_event = other.vmm_event;
  cut = cut || other.cut;
}

void VcpuTime::account(Timestamp at) {
  only_guest_ = false;
  const std::uint64_t ns = elapsed(mark_, at);
  if (state_ == RunState::kRuns) {
    piece_ns_ += ns;
    time_.guest_ns += ns;  // take() moves the devices' part of this
  } else if (state_ != RunState::kUnknown) {
    const Part part = is_asleep(state_) ? Part::kBlocked : Part::kPreempted;
    time_.parts[static_cast<std::size_t>(part)] += ns;
  }
  mark_ = std::max(mark_, at);
}

// Notes that the thread is on a CPU, because it does something.
void VcpuTime::runs(Timestamp at) {
  account(at);
  state_ = RunState::kRuns;
}

void VcpuTime::end_piece(bool may_be_device) {
  if (may_be_device) time_.devices_at_most_ns += piece_ns_;
  piece_ns_ = 0;
}

// Ends an access that began with a region's write: it lasts until the next access begins, or until
// a record of the guest.
void VcpuTime::end_access() {
  if (of_write_) devices_ns_ += access_ns_;
  of_write_ = false;
  access_ns_ = 0;
}

void VcpuTime::on_vmm_event(Timestamp at, const VmmEvent& event) {
  if (event.kind >= VmmEventKind::kVmState) return;
  runs(at);
  ++time_.vmm_events;
  const bool in_access = before_ == Before::kWrite || before_ == Before::kDevice;
  if (event.kind == VmmEventKind::kDevice) {
    if (in_access) access_ns_ += piece_ns_;
    end_piece(true);
    before_ = Before::kDevice;
    time_.vmm_event = event.name;
    return;
  }
  if (event.kind == VmmEventKind::kRegionWrite) {
    end_access();
    end_piece(in_access);
    of_write_ = true;
    before_ = Before::kWrite;
  } else {
    if (before_ == Before::kDevice && !of_write_) devices_ns_ += access_ns_ + piece_ns_;
    of_write_ = false;
    access_ns_ = 0;
    end_piece(true);
    before_ = Before::kRead;
  }
  if (time_.device != kNoName && time_.device != event.region) time_.several_devices = true;
  time_.device = event.region;
  if (time_.vmm_event == kNoName) time_.vmm_event = event.name;
}

void VcpuTime::on(const ThreadChange& change) {
  if (change.runs()) return runs(change.at);
  if (!change.leaves() && !(change.wakes() && is_asleep(state_))) return;
  account(change.at);
  state_ = change.leaves() ? change.now : RunState::kWoken;
}

void VcpuTime::on_loss(Timestamp at) {
  account(at);
  end_access();
  end_piece(before_ == Before::kWrite || before_ == Before::kDevice);
  before_ = Before::kRecord;
  state_ = RunState::kUnknown;
}

OwnTime VcpuTime::take(Timestamp at) {
  runs(at);
  end_access();
  end_piece(before_ == Before::kWrite || before_ == Before::kDevice);
  before_ = Before::kRecord;
  only_guest_ = true;
  time_.guest_ns -= devices_ns_;
  time_.parts[static_cast<std::size_t>(Part::kUser)] += std::exchange(devices_ns_, 0);
  return std::exchange(time_, {});
}

}  // namespace trapline
