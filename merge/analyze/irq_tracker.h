// Follows interrupts from the raise to their end, by vector:
//
//   kvm_set_irq | kvm_msi_set_irq ─> kvm_apic_accept_irq ─> kvm_inj_virq ─> kvm_entry ─> kvm_eoi
//        raised (pin or msi)         pending at the vCPU      injected      in guest     done
//
// An interrupt without a raise (the local timer) begins when its vCPU accepts it. An interrupt that
// is raised again while pending is coalesced: the first raise counts. A posted interrupt (APICv) is
// injected by its kvm_apicv_accept_irq, on the raising thread, and its entry is not known. arm64
// has vgic_update_irq_pending and no injection or EOI, so only the time from the raise to the next
// entry of the vCPU is known. PicLines follows interrupts of the PIC; an injected vector that no
// APIC accepted is one of these.
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

// An interrupt that a guest got. Times that were not seen are nullopt.
struct IrqSpan {
  enum class Origin : std::uint8_t { kLine, kMsi, kLocal };
  Origin origin = Origin::kLocal;
  std::uint32_t pin = 0;  // kLine
  std::uint32_t vector = kNoVector;
  Timestamp raised;
  std::optional<Timestamp> injected, entered, ended;
  ThreadId process{};         // set where the pipeline passes the interrupt on
  std::uint64_t request = 0;  // number of the last request that it tells the guest of; 0: none

  // Returns the end, or the last time that is known.
  [[nodiscard]] Timestamp end() const {
    return ended ? *ended : entered ? *entered : injected.value_or(raised);
  }
};

// The number of events of each IrqStep.
using IrqStepCounts = std::array<std::uint64_t, static_cast<std::size_t>(IrqStep::kPicEnd) + 1>;

// Follows interrupts through the PIC (i8259), which has pins while the guest has vectors:
//
//   kvm_set_irq 1 ──> kvm_pic_set_irq ──> kvm_inj_virq ──> kvm_entry ──> kvm_ack_irq
//     raised (pin)     latched: chip, pin    injected         in guest     done
//
// A vector's low three bits are its pin. The other bits are the base that the guest gave to one of
// the two chips; a chip's base is learned when only that chip has such a pin latched. An interrupt
// that could be from either chip is left open and counted. A pin that is latched again is one
// interrupt; a pin that the guest masked is not followed.
class PicLines {
 public:
  // `line` is chip * 8 + pin, as in KvmIrq for IrqStep::kPic.
  void latch(ThreadId process, std::uint32_t line, const IrqSpan& raised);
  // Returns whether the injected vector was an interrupt of the PIC.
  [[nodiscard]] bool inject(ThreadId process, std::uint32_t vector, const Event& event);
  void enter(ThreadId thread, Timestamp at);
  // Returns the interrupt that the guest ended, or nullptr; valid until the next call.
  [[nodiscard]] const IrqSpan* end(ThreadId process, std::uint32_t line, Timestamp at);
  // Returns the interrupts that were injected and never ended, one by one, then nullptr.
  [[nodiscard]] const IrqSpan* finish();
  void on_hole();

  [[nodiscard]] std::uint64_t coalesced() const { return coalesced_; }
  void begin_counts() { coalesced_ = ambiguous_ = 0; }
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
    std::array<std::uint32_t, 2> base{kNoVector, kNoVector};  // the vector of each chip's pin 0
  };
  // Returns the latched line with this vector, or nullptr.
  [[nodiscard]] Line* find(Pics& pics, std::uint32_t vector);

  LossTable<Pics> pics_;  // by process
  // The lines that a thread has injected since it last entered its guest. Pointers to lines stay
  // valid.
  std::map<ThreadId, std::vector<Line*>> to_enter_;
  std::uint64_t coalesced_ = 0, ambiguous_ = 0;
  IrqSpan done_;
};

// A finished request, with the injection of the interrupt that tells the guest of it.
struct Delivered {
  RequestSpan request;
  Timestamp injected;
  bool posted = false;  // injected by the hardware, possibly while the guest ran
};

// Follows all interrupts. Those that tell the guest of finished requests are also followed from the
// notify of QEMU, or of a vhost worker, to the injection into the guest:
//
//   QEMU's thread:  virtio_notify ──> kvm_msi_set_irq | kvm_set_irq 1 ──> kvm_apic_accept_irq
//                     waits to raise      raised                            │ vCPU, vector
//   vCPU's thread:                            delivered() <── kvm_inj_virq <─┘
//
// Raise and accept follow the notify on the same thread, in one system call. The wait for them ends
// when the thread does anything else: another QEMU event, sleep, running a guest. A queue always
// uses the same MSI vector or pin. An interrupt with another vector or pin is not joined to the
// queue's requests but counted, since another device's interrupt may have come instead of a masked
// one. With APICv the accept is the injection (kvm_apicv_accept_irq). arm64 has kvm_irq_line,
// vgic_update_irq_pending and the next entry of the vCPU; MSIs through the ITS leave no event.
class IrqTracker {
 public:
  static constexpr std::uint32_t kTakes = kPayloads<KvmIrq, KvmEntry, KvmExit, KvmStateLoad>;
  // Takes an event with a payload in kTakes, or that changed a thread; `process` is that of the
  // event's thread, so that interrupts of one VM do not end those of another. Returns the interrupt
  // that the event completes, or nullptr; valid until the next call.
  [[nodiscard]] const IrqSpan* on(const Event& event, ThreadChanges changes, ThreadId process);
  // Returns the requests whose interrupts the last event injected.
  [[nodiscard]] std::span<const Delivered> delivered() const { return delivered_; }
  // Notes that the event's thread tells the guest, by the interrupt of queue `vq`, that `requests`
  // have ended.
  void on_notify(const Event& event, ThreadId process, std::uint64_t vq,
                 std::vector<RequestSpan> requests);
  // Ends the thread's wait for a raise and an accept, because the thread does something else.
  // Returns the requests that the interrupt would have told of.
  std::vector<RequestSpan> take(ThreadId thread) {
    Thread* known = threads_.find(thread);
    return known == nullptr ? std::vector<RequestSpan>() : take(*known);
  }
  // Returns the interrupts that were injected and never ended, one by one, then nullptr.
  [[nodiscard]] const IrqSpan* finish();

  [[nodiscard]] std::uint64_t coalesced() const { return coalesced_ + pic_.coalesced(); }
  // Makes the counts begin here. Interrupts that are pending stay so.
  void begin_counts() {
    rerouted_ = coalesced_ = 0;
    seen_ = {};
    pic_.begin_counts();
  }
  // Returns the number of injected interrupts that may be from either of two lines.
  [[nodiscard]] std::uint64_t ambiguous() const { return pic_.ambiguous(); }
  // Returns the number of interrupts with another vector or pin than their queue's.
  [[nodiscard]] std::uint64_t rerouted() const { return rerouted_; }
  // Returns which steps the recording contains, and so which it lacks.
  [[nodiscard]] const IrqStepCounts& seen() const { return seen_; }

 private:
  using Key = std::tuple<ThreadId, std::int32_t, std::uint32_t>;  // process, vCPU, vector
  using Queue = std::pair<ThreadId, std::uint64_t>;               // process, vq
  static constexpr std::size_t kMost = 1u << 16, kMostPerEntry = 256;
  // Marks arm64's interrupt numbers in told_, in contrast to x86's vectors.
  static constexpr std::uint32_t kSpi = 1u << 31;
  struct Raise {
    IrqSpan span;  // its origin, pin and time
    bool open = false;
    // The IOAPIC has handled the raise: a later acceptance belongs to another interrupt.
    bool routed = false;
  };
  struct Route {
    IrqStep step = IrqStep::kMsi;
    std::uint32_t number = 0;  // vector or pin
    friend bool operator==(const Route&, const Route&) = default;
  };
  struct Thread {
    Raise raise;  // the interrupt that the thread is just raising
    // Members for a vCPU's thread:
    std::int32_t vcpu = kNoVcpu;
    std::vector<Key> injected;  // since the thread's last entry
    bool of_pic = false;        // an interrupt of the PIC was injected, too
    // Injections before the thread's vCPU was known; the next kvm_entry shows the vCPU.
    std::vector<std::pair<KvmIrq, Timestamp>> early;
    // Members for a thread that tells the guest of requests:
    enum class State : std::uint8_t { kIdle, kNotified, kRaised } state = State::kIdle;
    Queue queue;
    Route route;
    std::vector<RequestSpan> requests;
  };

  static std::vector<RequestSpan> take(Thread& thread) {
    thread.state = Thread::State::kIdle;
    return std::exchange(thread.requests, {});
  }
  void runs_vcpu(ThreadId thread, std::int32_t vcpu);
  void raise(const KvmIrq& irq, const Event& event);
  void accept(const KvmIrq& irq, const Event& event, ThreadId process);
  // Returns the number of the last request that is delivered; 0: none.
  std::uint64_t deliver(const Key& key, Timestamp at, bool posted = false);
  void latch(const KvmIrq& irq, const Event& event, ThreadId process);
  void on_inject(const KvmIrq& irq, const Event& event, ThreadId process);
  const IrqSpan* on_irq(const Event& event, const KvmIrq& irq, ThreadId process);
  const IrqSpan* on_entry(const Event& event, const KvmEntry& entry, ThreadId process);
  void on_hole();
  void pend(const Key& key, const Event& event);
  bool inject(const Key& key, Timestamp at, std::uint64_t request);

  LossTable<Thread> threads_;
  std::map<Key, IrqSpan> pending_, active_;
  std::map<Queue, Route> routes_;
  std::map<Key, std::vector<RequestSpan>> told_;  // requests whose interrupts are pending
  std::size_t told_count_ = 0;                    // number of requests in told_
  std::vector<Delivered> delivered_;
  std::uint64_t rerouted_ = 0;
  PicLines pic_;
  IrqStepCounts seen_{};
  std::uint64_t coalesced_ = 0;
  IrqSpan done_;
};

// The following functions are inlined, because nearly every event passes through them and few are
// of interest.

inline const IrqSpan* IrqTracker::on(const Event& event, ThreadChanges changes, ThreadId process) {
  delivered_.clear();
  for (const ThreadChange& change : changes)
    if (change.sleeps()) take(change.thread);
  if (const auto* irq = std::get_if<KvmIrq>(&event.payload)) return on_irq(event, *irq, process);
  if (const auto* entry = std::get_if<KvmEntry>(&event.payload))
    return on_entry(event, *entry, process);
  if (const auto* exit = std::get_if<KvmExit>(&event.payload)) runs_vcpu(event.thread, exit->vcpu);
  if (const auto* reload = std::get_if<KvmStateLoad>(&event.payload)) {
    take(event.thread);
    runs_vcpu(event.thread, reload->vcpu);
  }
  if (are_loss(changes)) on_hole();
  return nullptr;
}

}  // namespace trapline
