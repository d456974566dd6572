// Follows a virtio request from the guest and back: RequestSpans follows it inside the VMM, and
// this class adds what comes before and after.
//
//   guest's notify            VMM                                               guest
//   kvm_exit ──> queue notify ──────────> START ······ END ──> notify ──────────> kvm_inj_virq
//     NotifyExits      (thread serves the queue)    (same thread)    IrqDeliveries
//
// START belongs to the notify that its thread is serving, and END to the notify that is next to it
// on its thread, both of the same device. Events that do not follow directly are not joined. A loss
// closes everything.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "merge/analyze/block_requests.h"
#include "merge/analyze/irq_tracker.h"
#include "merge/analyze/notify_exits.h"
#include "merge/analyze/request_spans.h"
#include "merge/model/thread_table.h"

namespace trapline {

class RequestPath {
 public:
  // Borrows `names` and `vmm`. `spans` reads the fields of the VMM's events.
  RequestPath(Names& names, RequestSpans spans, const VmmKnowledge& vmm = any_vmm());
  [[nodiscard]] const RequestSpans& spans() const { return spans_; }

  [[nodiscard]] static bool looks_at(const Payload& payload) {
    return is_any_of<Lost, Marker, BlockIo>(payload) || NotifyExits::looks_at(payload) ||
           IrqDeliveries::looks_at(payload);
  }
  // Takes an event that it looks at, except markers, or one that changed a thread. Returns the
  // requests whose interrupt the event injects; valid until the next call.
  [[nodiscard]] std::span<const Delivered> on(const Event& event, ThreadChanges changes,
                                              ThreadId process);
  // Takes a marker that is the VMM's event `name`. Returns the request that it ends, or nullptr;
  // valid until the next call. The request's `notified` is the beginning of the exit that carried
  // its notify.
  [[nodiscard]] const RequestSpan* on_marker(const Event& event, const Marker& marker, NameId name,
                                             ThreadId process);

  [[nodiscard]] std::uint64_t notifies_ambiguous() const { return exits_.ambiguous(); }
  [[nodiscard]] std::uint64_t interrupts_ambiguous() const { return deliveries_.ambiguous(); }
  [[nodiscard]] std::uint64_t bios_ambiguous() const { return blocks_.ambiguous(); }

 private:
  static constexpr std::size_t kMostThreads = 1u << 16, kMostDeferred = 1024;

  struct Thread {
    std::uint64_t serves = 0;  // the device whose queue it handles; 0: none
    std::optional<Timestamp> notified;
    std::vector<RequestSpan> ended;  // ended by its last event, of the device ended_device
    std::uint64_t ended_device = 0;
    std::map<std::uint64_t, std::vector<RequestSpan>> deferred;  // by queue
    void clear() {                                               // at each entry of a vCPU
      serves = ended_device = 0;
      notified.reset();
      ended.clear();
      if (!deferred.empty()) deferred.clear();
    }
  };

  [[nodiscard]] RequestStep step_of(NameId name);
  [[nodiscard]] std::optional<std::uint64_t> field(std::string_view name);
  void before_spans(Thread& thread, RequestStep step, const Event& event, ThreadId process);
  void after_spans(Thread& thread, RequestStep step, const Event& event, ThreadId process,
                   const RequestSpan* ended);
  void begin_transfer(NameId name, ThreadId process);
  void on_hole(const Lost& lost);

  Names* names_;
  RequestSpans spans_;
  const VmmKnowledge* vmm_;
  RequestFields fields_;
  NotifyExits exits_;
  IrqDeliveries deliveries_;
  BlockRequests blocks_;
  ThreadTable<Thread> threads_;
  std::vector<RequestStep> steps_;                 // by NameId
  std::vector<const RequestTransfer*> transfers_;  // by NameId, where the step is known
  RequestSpan done_;
  Timestamp hole_end_;  // events before this time may be missing
};

}  // namespace trapline
