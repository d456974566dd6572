// The kinds of events that a recording holds, found by sampling its pages before it is read. They
// decide how the exit model is applied to the whole recording, so that its figures mean the same
// thing throughout.
#pragma once

namespace trapline {

struct Capabilities {
  bool kvm_exit = false;
  bool kvm_userspace_exit = false;
  bool any_kvm = false;
  bool run_ioctl = false;  // sys_enter_ioctl with KVM_RUN
  bool reload = false;     // kvm_fpu load, kvm_get_timer_map, kvm_timer_restore_state
  bool sched_switch = false;
  // The recording cannot show whether sched_switch was enabled from the beginning.
  bool late_switches = false;
  bool wakeups = false;  // sched_waking or sched_wakeup
  bool markers = false;

  void merge(const Capabilities& other) {
    kvm_exit |= other.kvm_exit;
    kvm_userspace_exit |= other.kvm_userspace_exit;
    any_kvm |= other.any_kvm;
    run_ioctl |= other.run_ioctl;
    reload |= other.reload;
    sched_switch |= other.sched_switch;
    late_switches |= other.late_switches;
    wakeups |= other.wakeups;
    markers |= other.markers;
  }
};

// ioctl(vcpu, KVM_RUN): _IO(0xAE, 0x80) of linux/kvm.h.
inline constexpr unsigned kKvmRun = 0xAE80;

}  // namespace trapline
