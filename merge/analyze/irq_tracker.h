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

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "merge/analyze/request_spans.h"
#include "merge/analyze/threads.h"
#include "merge/model/event.h"
#include "merge/model/thread_table.h"

namespace trapline {

// One interrupt that was handed to a guest, and which events of interrupts a recording holds.

// Times that were not seen are absent.
struct IrqSpan {
  enum class Origin : std::uint8_t { kLine, kMsi, kLocal };
  Origin origin = Origin::kLocal;
  std::uint32_t pin = 0;  // kLine
  std::uint32_t vector = kNoVector;
  Timestamp raised;
  std::optional<Timestamp> injected, entered, ended;
};

// How many events of each IrqStep came.
using IrqStepCounts = std::array<std::uint64_t, static_cast<std::size_t>(IrqStep::kPicEnd) + 1>;

// Interrupts through the PIC (i8259), which knows pins where the guest knows vectors:
//
//   kvm_set_irq 1 ──> kvm_pic_set_irq ──> kvm_inj_virq ──> kvm_entry ──> kvm_ack_irq
//     raised (pin)     latched: chip, pin    injected         in guest     done
//
// A vector's low three bits are its pin; which of the two chips it is of follows from the base that
// the guest gave to each (the vector's other bits), learned where only one of them has such a pin
// latched. What could be either's stays open and is counted. A pin latched again is one interrupt;
// one that the guest masked is not followed.
class PicLines {
 public:
  // `line` is chip * 8 + pin, as in KvmIrq of IrqStep::kPic.
  void latch(ThreadId process, std::uint32_t line, const IrqSpan& raised);
  // Whether it was an interrupt of the PIC.
  [[nodiscard]] bool inject(ThreadId process, std::uint32_t vector, const Event& event);
  void enter(ThreadId thread, Timestamp at);
  // The interrupt that the guest ended, or nullptr; valid until the next call.
  [[nodiscard]] const IrqSpan* end(ThreadId process, std::uint32_t line, Timestamp at);
  // Until it returns nullptr: what was injected and never ended.
  [[nodiscard]] const IrqSpan* finish();
  void on_hole();

  [[nodiscard]] std::uint64_t coalesced() const { return coalesced_; }
  [[nodiscard]] std::uint64_t ambiguous() const { return ambiguous_; }

 private:
  static constexpr std::size_t kMostProcesses = 4096, kMostThreads = 1u << 16;
  static constexpr std::uint32_t kPins = 8, kLines = 2 * kPins;
  struct Line {
    std::optional<IrqSpan> latched, active;
    ThreadId injected_by{};
  };
  struct Pics {
    std::array<Line, kLines> lines;
    std::array<std::uint32_t, 2> base{kNoVector, kNoVector};  // vector of each chip's pin 0
  };
  // The latched line whose vector it is, or nullptr.
  [[nodiscard]] Line* find(Pics& pics, std::uint32_t vector);

  LossTable<Pics> pics_;  // by process
  // What a thread has injected since it entered its guest: lines stay where they are.
  std::map<ThreadId, std::vector<Line*>> to_enter_;
  std::uint64_t coalesced_ = 0, ambiguous_ = 0;
  IrqSpan done_;
};

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
    return is_any_of<KvmIrq, KvmExit, KvmStateLoad, KvmEntry>(payload);
  }
  // An event of the kernel that it looks at, or that changed a thread: the requests whose
  // interrupts it injects; valid until the next call.
  [[nodiscard]] std::span<const Delivered> on(const Event& event, ThreadChanges changes,
                                              ThreadId process);
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
    // Injections before an event told the vCPU: kvm_entry, which follows them, will.
    std::vector<std::pair<std::uint32_t, Timestamp>> early;
  };

  void on_inject(const Event& event, const KvmIrq& irq, ThreadId process);
  void on_irq(const Event& event, const KvmIrq& irq, ThreadId process);
  void on_entry(const Event& event, const KvmEntry& entry, ThreadId process);
  void raise(Thread& thread, const Route& route);
  void pend(Thread& thread, const Key& key);
  void deliver(const Key& key, Timestamp at, bool posted = false);

  LossTable<Thread> threads_;
  std::map<Queue, Route> routes_;
  std::map<Key, std::vector<RequestSpan>> pending_;
  std::size_t pending_count_ = 0;  // requests, of all keys
  std::vector<Delivered> delivered_;
  std::uint64_t ambiguous_ = 0;
};

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
  };

  void latch(const KvmIrq& irq, const Event& event, ThreadId process);
  void on_inject(const KvmIrq& irq, const Event& event, ThreadId process);
  const IrqSpan* on_irq(const Event& event, const KvmIrq& irq, ThreadId process);
  const IrqSpan* on_entry(const Event& event, const KvmEntry& entry, ThreadId process);
  void pend(const Key& key, const Event& event);
  bool inject(const Key& key, Timestamp at);

  ThreadTable<Raise> raises_;     // what the thread is just raising
  LossTable<Entering> entering_;  // by vCPU thread
  std::map<Key, IrqSpan> pending_, active_;
  PicLines pic_;
  IrqStepCounts seen_{};
  std::uint64_t coalesced_ = 0;
  IrqSpan done_;
};

}  // namespace trapline
