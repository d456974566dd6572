// From QEMU telling the guest of a finished request to the injection of the interrupt:
//
//   QEMU's thread:  virtio_notify ──> kvm_msi_set_irq | kvm_set_irq 1 ──> kvm_apic_accept_irq
//                     waits to raise      raised                            │ vCPU, vector
//   vCPU's thread:                                  emit <── kvm_inj_virq <─┘
//
// Raise and accept follow the notify on its thread, in the same system call. The wait for them ends
// when the thread does anything else: another QEMU event, sleep, running a guest. A queue's
// interrupt has one way (MSI vector or pin); one that deviates is not joined, and counted, since
// another device's may have come in place of a masked one. With APICv the accept is the injection
// (kvm_apicv_accept_irq). arm64: kvm_irq_line, vgic_update_irq_pending, the next entry of the vCPU;
// MSIs through the ITS leave no event there.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "merge/analyze/request_spans.h"
#include "merge/model/event.h"
#include "merge/model/thread_table.h"

namespace trapline {

struct Delivered {
  RequestSpan request;
  Timestamp injected;
  bool posted = false;  // by the hardware, while the guest may have run
};

class IrqDeliveries {
 public:
  // The event's thread tells the guest of `requests`, by the interrupt of the queue `vq`.
  void on_notify(const Event& event, ThreadId process, std::uint64_t vq,
                 std::vector<RequestSpan> requests);
  // The thread does something else.
  void on_other(ThreadId thread) { (void)take(thread); }
  // What on_other() would take from the thread.
  [[nodiscard]] std::vector<RequestSpan> take(ThreadId thread);
  [[nodiscard]] static bool looks_at(const Payload& payload) {
    return is_any_of<KvmIrq, SchedSwitch, KvmExit, KvmStateLoad, KvmEntry>(payload);
  }
  // An event of the kernel that it looks at: the requests whose interrupts it injects; valid until
  // the next call.
  [[nodiscard]] std::span<const Delivered> on(const Event& event, ThreadId process);
  void on_hole();

  // Interrupts that came by another way than their queue's before.
  [[nodiscard]] std::uint64_t ambiguous() const { return ambiguous_; }

 private:
  static constexpr std::size_t kMostThreads = 1u << 16, kMost = 1u << 16, kMostEarly = 256;
  static constexpr std::uint32_t kSpi = 1u << 31;  // arm64's interrupt numbers beside x86's vectors
  using Key = std::tuple<ThreadId, std::int32_t, std::uint32_t>;  // process, vCPU, vector
  using Queue = std::pair<ThreadId, std::uint64_t>;               // process, vq
  struct Route {
    IrqStep step = IrqStep::kMsi;
    std::uint32_t number = 0;  // vector or pin
    friend bool operator==(const Route&, const Route&) = default;
  };
  struct Thread {
    enum class State : std::uint8_t { kIdle, kNotified, kRaised } state = State::kIdle;
    Queue queue;
    Route route;
    std::vector<RequestSpan> requests;
    std::int32_t vcpu = kNoVcpu;
    bool held = false;  // among held_
    // Injections before an event told the vCPU: kvm_entry, which follows them, will.
    std::vector<std::pair<std::uint32_t, Timestamp>> early;
  };

  void on_inject(const Event& event, const KvmIrq& irq, ThreadId process);
  void on_irq(const Event& event, const KvmIrq& irq, ThreadId process);
  void on_entry(const Event& event, const KvmEntry& entry, ThreadId process);
  void raise(Thread& thread, const Route& route);
  void pend(Thread& thread, const Key& key);
  void deliver(const Key& key, Timestamp at, bool posted = false);

  ThreadTable<Thread> threads_;
  HeldStates<Thread> held_;  // with a notify or injections
  std::map<Queue, Route> routes_;
  std::map<Key, std::vector<RequestSpan>> pending_;
  std::size_t pending_count_ = 0;  // requests, of all keys
  std::vector<Delivered> delivered_;
  std::uint64_t ambiguous_ = 0;
};

}  // namespace trapline
