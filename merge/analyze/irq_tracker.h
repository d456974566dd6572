// The way of an interrupt, by vector:
//
//   kvm_set_irq | kvm_msi_set_irq ──> kvm_apic_accept_irq ──> kvm_inj_virq ──> kvm_entry ──>
//   kvm_eoi
//        raised (pin or msi)            pending at the vCPU       injected      in guest    done
//
// An interrupt without a raise (the local timer) begins where its vCPU accepts it. One raised again
// while it is pending is coalesced: the first raise counts. A posted interrupt (APICv) is injected
// with its kvm_apicv_accept_irq, on the raising thread, and its entry is not known. arm64 has
// vgic_update_irq_pending and no injection or EOI: raised to the next entry of its vCPU only.
// PicLines follows those of the PIC; an injected vector that no APIC accepted is one of them.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "merge/analyze/irq_span.h"
#include "merge/analyze/pic_lines.h"
#include "merge/model/event.h"
#include "merge/model/thread_table.h"

namespace trapline {

class IrqTracker {
 public:
  [[nodiscard]] static bool looks_at(const Payload& payload) {
    return is_any_of<KvmIrq, KvmEntry, KvmExit, KvmStateLoad, Lost>(payload);
  }
  // Of events that it looks at; `process` is that of the event's thread: interrupts of one VM do
  // not end another's. The interrupt that the event completes, or nullptr; valid until the next
  // call.
  [[nodiscard]] const IrqSpan* on(const Event& event, ThreadId process);
  // Until it returns nullptr: what was injected and never ended.
  [[nodiscard]] const IrqSpan* finish();

  [[nodiscard]] std::uint64_t coalesced() const { return coalesced_ + pic_.coalesced(); }
  // Injected and possibly either of two lines'.
  [[nodiscard]] std::uint64_t ambiguous() const { return pic_.ambiguous(); }
  // What the recording holds, to tell what it does not.
  [[nodiscard]] const IrqStepCounts& seen() const { return seen_; }

 private:
  using Key = std::tuple<ThreadId, std::int32_t, std::uint32_t>;  // process, vCPU, vector
  static constexpr std::size_t kMost = 1u << 16;
  struct Raise {
    IrqSpan::Origin origin = IrqSpan::Origin::kLocal;
    std::uint32_t pin = 0;
    Timestamp at;
    bool open = false;
    bool routed = false;  // the IOAPIC is done with it: an acceptance after that is another's
  };
  struct Entering {
    std::vector<Key> injected;  // since the thread's last entry
    bool of_pic = false;        // one of the PIC, too
    // Injections before an event told the vCPU: kvm_entry, which follows them, will.
    std::vector<std::pair<KvmIrq, Timestamp>> early;
    std::int32_t vcpu = kNoVcpu;
    bool held = false;  // among early_
  };

  void latch(const KvmIrq& irq, const Event& event, ThreadId process);
  void on_inject(const KvmIrq& irq, const Event& event, ThreadId process);
  const IrqSpan* on_irq(const Event& event, const KvmIrq& irq, ThreadId process);
  const IrqSpan* on_entry(const Event& event, const KvmEntry& entry, ThreadId process);
  void pend(const Key& key, const Event& event);
  bool inject(const Key& key, Timestamp at);

  ThreadTable<Raise> raises_;       // what the thread is just raising
  ThreadTable<Entering> entering_;  // by vCPU thread
  HeldStates<Entering> early_;      // with injections before an event told the vCPU
  std::map<Key, IrqSpan> pending_, active_;
  PicLines pic_;
  IrqStepCounts seen_{};
  std::uint64_t coalesced_ = 0;
  IrqSpan done_;
};

}  // namespace trapline
