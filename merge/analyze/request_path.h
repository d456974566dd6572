// Follows a virtio request from the guest and back: RequestSpans follows it inside the VMM, and
// this class adds what comes before and after.
//
//   guest's notify            VMM                                               guest
//   kvm_exit ──> queue notify ──────────> START ······ END ──> notify ──────────> kvm_inj_virq
//     NotifyExits      (thread serves the queue)    (same thread)    IrqTracker
//
// START belongs to the notify that its thread is serving, and END to the notify that is next to it
// on its thread, both of the same device. Events that do not follow directly are not joined. A loss
// closes everything.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "merge/analyze/block_requests.h"
#include "merge/analyze/irq_tracker.h"
#include "merge/analyze/request_spans.h"
#include "merge/model/event.h"
#include "merge/model/thread_table.h"

namespace trapline {

// Finds the VM exit that carried a guest's notify to QEMU.
//
// A notify that the vCPU's own thread handles was carried by the exit that the thread is in. A
// notify that KVM turned into an eventfd (ioeventfd) appears twice, and only the queue's number is
// the same:
//
//   vCPU:  kvm_exit ── kvm_mmio write ADDRESS value n ── kvm_entry      (no exit to user space)
//   QEMU:                      virtio_queue_notify … n N vq Q
//
// Q's address is found by elimination, never by time alone. Every notify of Q follows a write of n
// to Q's address since Q's previous notify, so the sets of addresses written in between are
// intersected over Q's notifies. When one address is left and was in at least two sets, it is Q's.
// The first write to it since the previous notify carried the notify. Notifies that remain
// ambiguous are counted.
class NotifyExits {
 public:
  // Takes an event with a payload in RequestPath::kTakes; `process` is that of the event's thread.
  void on(const Event& event, ThreadId process);
  // Takes QEMU's handling of a notify of queue `vq`, number `n` of its device. Returns the exit
  // that carried the notify, if it is known.
  [[nodiscard]] std::optional<NotifyExit> on_notify(const Event& event, ThreadId process,
                                                    std::uint64_t vq, std::uint64_t n);
  // Forgets everything before a loss, since events may be missing.
  void on_hole();

  // Returns the number of notifies that several exits, or several addresses, may have carried.
  [[nodiscard]] std::uint64_t ambiguous() const { return ambiguous_; }

 private:
  static constexpr std::size_t kMostThreads = 1u << 16, kMostWrites = 4096, kMostQueues = 4096;
  // Queue numbers have 16 bits; the bits above are what VIRTIO_F_NOTIFICATION_DATA adds.
  static constexpr std::uint64_t kNumber = 0xffff;

  struct Thread {
    bool in_exit = false;
    Timestamp exit;
    std::optional<std::uint64_t> written;  // the value written in this exit, by port or MMIO
  };
  struct Write {
    Timestamp exit, at;
    ThreadId thread;
    std::uint64_t address, value;
  };
  struct Writes {
    std::deque<Write> writes;
    Timestamp complete_from;  // writes before this time were dropped
  };
  struct Queue {
    std::optional<Timestamp> last;         // the queue's previous notify
    std::vector<std::uint64_t> addresses;  // possible addresses, in order
    unsigned seen = 0, missed = 0;         // notifies that agree; notifies in a row that do not
    // The queue's previous notify followed several writes, of which the last may have come too late
    // for it.
    bool doubtful = false;
  };

  void on_write(const Event& event, ThreadId process, const KvmDetail& detail);
  [[nodiscard]] std::optional<NotifyExit> find(Queue& queue,
                                               const std::vector<const Write*>& window);
  static bool narrow(Queue& queue, const std::vector<const Write*>& window);

  ThreadTable<Thread> threads_;
  std::map<ThreadId, Writes> writes_;  // by process
  std::map<std::pair<ThreadId, std::uint64_t>, Queue> queues_;
  std::uint64_t ambiguous_ = 0;
};

class RequestPath {
 public:
  // Borrows `names` and `interrupts`. `spans` reads the fields of the VMM's events.
  RequestPath(Names& names, RequestSpans spans, IrqTracker& interrupts)
      : names_(&names), spans_(std::move(spans)), interrupts_(&interrupts) {}
  [[nodiscard]] const RequestSpans& spans() const { return spans_; }

  static constexpr std::uint32_t kTakes =
      kPayloads<Marker, BlockIo, KvmExit, KvmEntry, KvmUserspaceExit, KvmDetail>;
  // Takes an event with a payload in kTakes, except markers, or one that changed a thread,
  // before `interrupts` does.
  void on(const Event& event, ThreadChanges changes, ThreadId process);
  // Takes a marker that is the VMM's event `name`. Returns the request that it ends, or nullptr;
  // valid until the next call. The request's `notified` is the exit that carried its notify.
  [[nodiscard]] const RequestSpan* on_marker(const Event& event, const Marker& marker, NameId name,
                                             ThreadId process);

  [[nodiscard]] std::uint64_t notifies_ambiguous() const { return exits_.ambiguous(); }
  [[nodiscard]] std::uint64_t interrupts_ambiguous() const { return interrupts_->rerouted(); }
  [[nodiscard]] std::uint64_t bios_ambiguous() const { return blocks_.ambiguous(); }

 private:
  static constexpr std::size_t kMostThreads = 1u << 16, kMostDeferred = 1024;

  struct Thread {
    std::uint64_t serves = 0;  // the device whose queue the thread handles; 0: none
    std::optional<NotifyExit> notified;
    std::vector<RequestSpan> ended;  // ended by the thread's last event, of ended_device
    std::uint64_t ended_device = 0;
    std::map<std::uint64_t, std::vector<RequestSpan>> deferred;  // by queue
    void clear() {                                               // at each entry of a vCPU
      serves = ended_device = 0;
      notified.reset();
      ended.clear();
      if (!deferred.empty()) deferred.clear();
    }
  };

  // Returns the process, or the thread if no event names the process.
  [[nodiscard]] static ThreadId process_or_thread(ThreadId process, ThreadId thread) {
    return process == ThreadId{} ? thread : process;
  }
  [[nodiscard]] RequestStep step_of(NameId name);
  void before_spans(Thread& thread, RequestStep step, const Event& event, ThreadId process);
  void after_spans(Thread& thread, RequestStep step, const Event& event, ThreadId process,
                   const RequestSpan* ended);
  void begin_transfer(NameId name, ThreadId process);

  Names* names_;
  RequestSpans spans_;
  IrqTracker* interrupts_;
  NotifyExits exits_;
  BlockRequests blocks_;
  ThreadTable<Thread> threads_;
  std::vector<RequestStep> steps_;                 // by NameId
  std::vector<const RequestTransfer*> transfers_;  // by NameId, where the step is known
  RequestSpan done_;
  Timestamp hole_end_;  // events before this time may be missing
};

// The following functions are inlined, because nearly every event passes through them and few are
// of interest.

inline void NotifyExits::on(const Event& event, ThreadId process) {
  if (std::holds_alternative<KvmExit>(event.payload)) {
    if (Thread* thread = threads_.get(event.thread, kMostThreads)) *thread = {true, event.at, {}};
  } else if (std::holds_alternative<KvmEntry>(event.payload)) {
    if (Thread* thread = threads_.find(event.thread)) thread->in_exit = false;
  } else if (const auto* left = std::get_if<KvmUserspaceExit>(&event.payload)) {
    if (left->error < 0) return;  // interrupted: the kernel has served the write
    // QEMU serves the write itself, so no eventfd carries it.
    auto& writes = writes_[process].writes;
    const Thread* thread = threads_.find(event.thread);
    if (thread == nullptr || !thread->in_exit) return;
    // Writes are in order of time, and those of this exit came after it began.
    for (auto last = writes.rbegin(); last != writes.rend() && last->at >= thread->exit; ++last) {
      if (last->thread != event.thread || last->exit != thread->exit) continue;
      writes.erase(std::next(last).base());
      break;
    }
  } else if (const auto* detail = std::get_if<KvmDetail>(&event.payload)) {
    if (detail->is_device_write()) on_write(event, process, *detail);
  }
}

inline void RequestPath::on(const Event& event, ThreadChanges changes, ThreadId process) {
  if (are_loss(changes)) {
    exits_.on_hole();
    blocks_.on_hole();
    spans_.on_hole();
    threads_.clear();
    hole_end_ = std::max(hole_end_, changes.front().until);
    return;
  }
  if (event.at < hole_end_) return;
  for (const ThreadChange& change : changes) {
    Thread* thread = change.sleeps() ? threads_.find(change.thread) : nullptr;
    if (thread != nullptr) thread->clear();  // the thread waits for new work
  }
  if (std::holds_alternative<KvmEntry>(event.payload)) {
    if (Thread* thread = threads_.find(event.thread)) thread->clear();
  }
  if (const auto* block = std::get_if<BlockIo>(&event.payload)) {
    blocks_.on(event, *block, process_or_thread(process, event.thread));
  } else {
    exits_.on(event, process);
  }
}

}  // namespace trapline
