// The kinds of events that a recording holds, found by sampling its pages before it is read. They
// decide how the exit model is applied to the whole recording, so that its figures mean the same
// thing throughout.
#pragma once

#include <cstdint>
#include <map>

#include "merge/model/event.h"

namespace trapline {

struct Capabilities {
  bool kvm_exit = false;
  bool kvm_userspace_exit = false;
  bool any_kvm = false;
  bool run_ioctl = false;  // sys_enter_ioctl with KVM_RUN
  bool reload = false;     // kvm_fpu load, kvm_get_timer_map, kvm_timer_restore_state
  bool sched_switch = false;
  // sched_switch was enabled after other events, or the recording cannot show that it was not.
  bool late_switches = false;
  bool wakeups = false;  // sched_waking or sched_wakeup
  bool moves = false;    // sched_migrate_task, or the host has one CPU
  bool markers = false;
  bool vmm_exits = false;  // the VMM's events, not KVM's, show exits and perhaps KVM_RUN
  // The vCPU number of each vCPU thread that the sample shows.
  std::map<ThreadId, std::int32_t> vcpus = {};

  void merge(const Capabilities& other) {
    // `moves` needs the moves of threads between CPUs in each recording with sched_switch.
    if (sched_switch != other.sched_switch)
      moves = sched_switch ? moves : other.moves;
    else
      moves = sched_switch ? moves && other.moves : moves || other.moves;
    using Of = Capabilities;
    for (bool Of::*const one :
         {&Of::kvm_exit, &Of::kvm_userspace_exit, &Of::any_kvm, &Of::run_ioctl, &Of::reload,
          &Of::sched_switch, &Of::late_switches, &Of::wakeups, &Of::markers, &Of::vmm_exits})
      this->*one |= other.*one;
    vcpus.insert(other.vcpus.begin(), other.vcpus.end());
  }
};

// ioctl(vcpu, KVM_RUN): _IO(0xAE, 0x80) of linux/kvm.h.
inline constexpr unsigned kKvmRun = 0xAE80;

}  // namespace trapline
