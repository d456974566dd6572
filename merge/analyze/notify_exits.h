// Which VM exit carried a guest's notify to QEMU.
//
// A notify handled on the vCPU's own thread was carried by the exit the thread is in. One that KVM
// turned into an eventfd (ioeventfd) is seen twice, with nothing in common but the queue's number:
//
//   vCPU:  kvm_exit ── kvm_mmio write ADDRESS value n ── kvm_entry      (no exit to user space)
//   QEMU:                      virtio_queue_notify … n N vq Q
//
// Q's address is found by elimination, never by time alone: every notify of Q follows a write of n
// to Q's address since Q's notify before, so the addresses written meanwhile are intersected over
// Q's notifies. When one is left, and has stood in at least two of them, it is Q's; the first write
// to it since the notify before is the one that carried the notify. What stays open is counted.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "merge/model/event.h"
#include "merge/model/thread_table.h"

namespace trapline {

class NotifyExits {
 public:
  // Events of the kernel; `process` is that of the event's thread.
  [[nodiscard]] static bool looks_at(const Payload& payload) {
    return is_any_of<KvmExit, KvmEntry, KvmUserspaceExit, KvmDetail>(payload);
  }
  void on(const Event& event, ThreadId process);
  // QEMU's thread handles the notify of queue `vq`, number `n` of its device: when its exit began.
  [[nodiscard]] std::optional<Timestamp> on_notify(const Event& event, ThreadId process,
                                                   std::uint64_t vq, std::uint64_t n);
  // Writes may be missing: nothing is concluded from before the loss.
  void on_hole();

  // Notifies that more than one exit, or more than one address, may have carried.
  [[nodiscard]] std::uint64_t ambiguous() const { return ambiguous_; }

 private:
  static constexpr std::size_t kMostThreads = 1u << 16, kMostWrites = 4096, kMostQueues = 4096;
  // Queue numbers are 16 bits; above stands what VIRTIO_F_NOTIFICATION_DATA adds.
  static constexpr std::uint64_t kNumber = 0xffff;

  struct Thread {
    bool in_exit = false;
    Timestamp exit;
    std::optional<std::uint64_t> written;  // in this exit, by port or MMIO
  };
  struct Write {
    Timestamp exit, at;
    ThreadId thread;
    std::uint64_t address, value;
  };
  struct Writes {
    std::deque<Write> writes;
    Timestamp complete_from;  // earlier ones were dropped
  };
  struct Queue {
    std::optional<Timestamp> last;         // its notify before
    std::vector<std::uint64_t> addresses;  // that may be its own, in order
    unsigned seen = 0, missed = 0;  // notifies that agree; in a row, those without its address
    bool doubtful =
        false;  // of several writes the last may have come too late for the notify before
  };

  void on_write(const Event& event, ThreadId process, const KvmDetail& detail);
  [[nodiscard]] std::optional<Timestamp> find(Queue& queue,
                                              const std::vector<const Write*>& window);
  [[nodiscard]] static std::vector<std::uint64_t> addresses_of(
      const std::vector<const Write*>& window);
  static bool narrow(Queue& queue, const std::vector<const Write*>& window);

  ThreadTable<Thread> threads_;
  std::map<ThreadId, Writes> writes_;  // by process
  std::map<std::pair<ThreadId, std::uint64_t>, Queue> queues_;
  std::uint64_t ambiguous_ = 0;
};

}  // namespace trapline
